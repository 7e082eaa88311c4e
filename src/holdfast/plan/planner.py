"""The plan: for each job at most one command, from what was seen and nothing else."""

from dataclasses import replace

from holdfast.model import restart_strategy
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Desired, Ending, Lease, Outcome, Report, Spec, State
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.plan.command import Command, Launch, Quarantine, Settle, Withdraw
from holdfast.plan.placement import Room
from holdfast.plan.snapshot import Garbled, JobView, Now, Snapshot

LOSSES_FREE = 1
LOSS_DELAY_S_MAX = 60.0
LASTED_S = 60.0
"""An attempt that lived this long was not lost because of where or how it was started."""


def plan(snapshot: Snapshot, now: Now) -> list[Command]:
    """Waiting jobs are served in the order in which they began to wait, by the room that the others leave."""
    room = Room(snapshot.nodes)
    for job in snapshot.jobs.values():
        _occupy(room, job)
    commands: list[Command] = []
    for job in sorted(snapshot.jobs.values(), key=_turn):
        if (command := _Decision(snapshot, room, job, now).make()) is not None:
            commands.append(command)
    return [*commands, *_stray_orders(snapshot)]


def _occupy(room: Room, job: JobView) -> None:
    slots = job.spec.slots if isinstance(job.spec, Spec) else 1
    if isinstance(job.lease, Lease):
        room.occupy(job.lease.node, slots)
    elif isinstance(job.state, State) and job.state.phase.occupies_slots and job.state.node is not None:
        room.occupy(job.state.node, slots)


def _turn(job: JobView) -> tuple[float, str]:
    """Who has waited longest comes first; a new reason for waiting does not begin it anew."""
    since = 0.0
    for event in reversed(job.state.events if isinstance(job.state, State) else ()):
        if event.phase not in (Phase.PENDING, Phase.BACKOFF):
            break
        since = event.wall
    return (since, job.id)


def _stray_orders(snapshot: Snapshot) -> list[Command]:
    strays: list[Command] = []
    for node, jobs in snapshot.orders.items():
        for id in sorted(jobs):
            job = snapshot.jobs.get(id)
            state = job.state if job is not None else None
            if isinstance(state, Garbled):
                continue  # nobody can say what it should match
            if not isinstance(state, State) or state.node != node or not state.phase.occupies_slots:
                strays.append(Withdraw(id, node, "the job's state does not name this order"))
    return strays


class _Decision:
    """About one job."""

    def __init__(self, snapshot: Snapshot, room: Room, job: JobView, now: Now) -> None:
        self._snapshot = snapshot
        self._room = room
        self._job = job
        self._now = now

    def make(self) -> Command | None:
        job = self._job
        if isinstance(job.state, State) and job.state.phase.final:
            return None  # what ended never runs again, whatever is left over of it
        if isinstance(job.lease, Garbled):
            return None  # somebody is alive: its next heartbeat says who
        quarantined = job.id in self._snapshot.quarantined
        if isinstance(job.state, State) and job.state.phase is Phase.QUARANTINED:
            return self._set_aside(job.state, quarantined=quarantined)
        if quarantined and job.lease is None:
            return None  # what was set aside stays there until a person releases it, whatever is put back meanwhile
        if (defect := self._defect()) is not None:
            return None if quarantined else self._about(defect)
        assert isinstance(job.state, State) and isinstance(job.spec, Spec) and isinstance(job.desired, Desired)
        if isinstance(job.lease, Lease):
            return self._alive(job.state, job.desired, job.lease)
        return self._not_alive(job.state, job.spec, job.desired)

    # What cannot be read

    def _defect(self) -> str | None:
        """Why nothing can be decided about this job."""
        job = self._job
        parts = (("spec", job.spec), ("desired", job.desired), ("state", job.state), ("report", job.report))
        for what, part in parts:
            if isinstance(part, Garbled):
                return f"its {what} cannot be read: {part.reason}"
        if job.state is None:
            return "it has no state: it was not submitted as a whole, or was swept by half"
        if job.spec is None or job.desired is None or not job.whole:
            return "a part of it is missing: it was put back by hand, or was swept by half"
        if not job.owns_its_name:
            return "its name belongs to another job, or to none: it was put back by hand"
        if isinstance(job.state, State) and job.lease is None and job.state.attempt > job.attempt:
            return f"its state tells of attempt {job.state.attempt}, which was never given out: it was put back by hand"
        return None

    def _set_aside(self, state: State, *, quarantined: bool) -> Command | None:
        """It stays in quarantine until a person cancels it, or releases it and nothing is wrong with it any more."""
        job = self._job
        if job.desired is Desired.CANCEL and job.lease is None:
            return self._settle(state, Phase.CANCELLED, "a person cancelled it")
        if quarantined or job.desired is not Desired.RUN or job.word <= state.heard or self._defect() is not None:
            return None
        return self._settle(state, Phase.PENDING, "a person released it from quarantine")

    def _about(self, defect: str) -> Command | None:
        """What runs is left alone. What does not run never starts."""
        job = self._job
        if not isinstance(job.lease, Lease):
            return Quarantine(job.id, defect, self._quarantined_state(defect))
        if isinstance(job.state, Garbled):
            return Settle(job.id, self._rebuilt(job.lease, job.state), rebuilt=True)
        return None

    def _quarantined_state(self, defect: str) -> State | None:
        old = self._job.state
        if isinstance(old, State):
            return self._settle(old, Phase.QUARANTINED, defect).state
        if old is None:
            return None
        # The original is kept beside the job; its number stays used.
        fresh = State(Phase.PENDING, defect, attempt=self._job.attempt, versions=Versions(self._job.version))
        return self._settle(fresh, Phase.QUARANTINED, defect).state

    def _rebuilt(self, lease: Lease, state: Garbled) -> State:
        reason = f"its state could not be read ({state.reason}) and was made anew from the lease of attempt {lease.attempt}"
        fresh = State(Phase.PENDING, reason, attempt=lease.attempt, versions=Versions(self._job.version))
        return fresh.becoming(
            Phase.RUNNING, reason, wall=self._now.wall, epoch=self._snapshot.epoch, attempt=lease.attempt, node=lease.node
        )

    # What is alive

    def _alive(self, state: State, desired: Desired, lease: Lease) -> Command | None:
        if desired is not Desired.RUN:
            if state.phase is Phase.STOPPING:
                return None
            return self._settle(state, Phase.STOPPING, f"a person asked to {desired}", attempt=lease.attempt, lease=lease)
        known = (state.attempt, state.node) == (lease.attempt, lease.node) and lease.note in state.reason
        if state.phase is Phase.RUNNING and known:
            return None
        if state.phase is Phase.STOPPING:
            return None  # the stop was taken back too late: the attempt ends, and then the job runs again
        if state.phase is Phase.PARKED:
            return self._settle(
                state, Phase.STOPPING, "it is parked, and an attempt is alive", attempt=lease.attempt, lease=lease
            )
        # The note may come a little after the lease was seen.
        return self._settle(state, Phase.RUNNING, lease.reason, attempt=lease.attempt, lease=lease)

    # What is not alive

    def _not_alive(self, state: State, spec: Spec, desired: Desired) -> Command | None:
        if state.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            return self._after_attempt(state, spec, desired)
        if desired is Desired.CANCEL:
            return self._settle(state, Phase.CANCELLED, "a person cancelled it")
        if desired is Desired.STOP:
            if state.phase is Phase.PARKED:
                return None
            return self._settle(state, Phase.PARKED, "a person stopped it; 'resume' starts it again, 'cancel' ends it")
        spoken = self._job.word > state.heard
        if state.phase is Phase.PARKED:
            return self._settle(state, Phase.PENDING, "a person resumed it") if spoken else None
        if state.phase is Phase.BACKOFF and self._now.wall < state.not_before and not spoken:
            return None
        return self._launch(state, spec)

    def _after_attempt(self, state: State, spec: Spec, desired: Desired) -> Command | None:
        report = self._own_report(state)
        outcome = report.outcome if report is not None else None
        if not self._surely_dead(state, report, desired):
            return None
        if report is not None and report.proven:
            state = replace(state, versions=state.versions.accept())
        if desired is Desired.CANCEL:
            return self._settle(state, Phase.CANCELLED, "a person cancelled it")
        if outcome is None:
            outcome = self._never_reported(state, report)
        if outcome.ending is Ending.FINISHED:
            return self._settle(state, Phase.FINISHED, outcome.reason)
        if desired is Desired.STOP:
            return self._settle(state, Phase.PARKED, "a person stopped it; 'resume' starts it again, 'cancel' ends it")
        if outcome.ending.needs_a_person:
            return self._settle(state, Phase.PARKED, outcome.reason)
        if state.versions.on_trial and (outcome.ending.blames_the_job or outcome.ending is Ending.UNSTARTABLE):
            return self._go_back(state, outcome)
        if outcome.ending is Ending.UNSTARTABLE:
            return self._settle(state, Phase.FAILED, outcome.reason)
        if outcome.ending.blames_the_job:
            return self._after_failure(state, spec, report, outcome)
        if outcome.ending is Ending.LOST:
            return self._after_loss(state, report, outcome)
        return self._settle(state, Phase.PENDING, outcome.reason, losses=0)

    def _go_back(self, state: State, outcome: Outcome) -> Command:
        """At once, and at nobody's expense: the version before has done nothing wrong."""
        versions = state.versions.go_back()
        reason = (
            f"version {versions.rejected} did not come to its first batch: {outcome.reason}; version {versions.current} is back"
        )
        return self._settle(replace(state, versions=versions), Phase.PENDING, reason)

    def _own_report(self, state: State) -> Report | None:
        report = self._job.report
        return report if isinstance(report, Report) and report.attempt == state.attempt else None

    def _surely_dead(self, state: State, report: Report | None, desired: Desired) -> bool:
        """Certified, or gone for a margin on this leader's own clock.

        An attempt that has never reported has never held the lease, and cannot take it any more once the next number is
        given out, nor while it is not wanted. It is only a question of patience.
        """
        if report is not None and report.dead:
            return True
        if report is None and state.phase is Phase.STARTING and desired is not Desired.RUN:
            return True
        since = self._job.lease_gone_since
        if since is None:
            return False
        starting = report is None and state.phase is Phase.STARTING and state.node in self._snapshot.nodes
        return self._now.boot - since >= (self._snapshot.start_s if starting else self._snapshot.margin_s)

    def _never_reported(self, state: State, report: Report | None) -> Outcome:
        where = f"on {state.node}" if state.node is not None else "on an unknown node"
        if report is None:
            return Outcome(Ending.LOST, f"attempt {state.attempt} {where} was never seen alive")
        return Outcome(Ending.LOST, f"attempt {state.attempt} {where} was lost: its lease is gone and it left no report")

    def _after_failure(self, state: State, spec: Spec, report: Report | None, outcome: Outcome) -> Command:
        wall = self._now.wall
        failures = state.failures.with_another(started=report.started if report is not None else None, now=wall)
        verdict = restart_strategy.decide(
            restart_strategy.parse(spec.restart), failures, now=wall, key=f"{self._job.id}/{state.attempt}"
        )
        if isinstance(verdict, restart_strategy.Enough):
            return self._settle(state, Phase.FAILED, f"{outcome.reason}; {verdict.reason}", failures=failures)
        reason = f"{outcome.reason}; again in {verdict.delay_s:.0f} s"
        return self._settle(state, Phase.BACKOFF, reason, failures=failures, not_before=wall + verdict.delay_s)

    def _after_loss(self, state: State, report: Report | None, outcome: Outcome) -> Command:
        """Nobody's budget, and the first one costs no time; but what is lost again and again must not spin."""
        wall = self._now.wall
        lasted = report is not None and wall - report.started >= LASTED_S
        losses = 1 if lasted else state.losses + 1
        if losses <= LOSSES_FREE:
            return self._settle(state, Phase.PENDING, outcome.reason, losses=losses)
        delay_s = min(2.0 ** min(losses - LOSSES_FREE - 1, 16), LOSS_DELAY_S_MAX)
        reason = f"{outcome.reason}; that was {losses} times in a row, again in {delay_s:.0f} s"
        return self._settle(state, Phase.BACKOFF, reason, losses=losses, not_before=wall + delay_s)

    def _where_it_may_run(self) -> tuple[NodeId, ...] | None:
        """Without a certificate the last attempt may live on by promises, and only those who gave them know. None: anywhere."""
        report, state = self._job.report, self._job.state
        if not isinstance(report, Report) or report.dead or not report.failsafe:
            return None
        forced = self._job.force and isinstance(state, State) and self._job.word > state.heard
        return None if forced else report.failsafe

    def _no_room(self, spec: Spec, among: tuple[NodeId, ...] | None) -> str:
        if among is not None and not any(node in self._snapshot.nodes for node in among):
            return (
                f"waiting for one of {', '.join(among)}: nobody has certified that the last attempt is dead, and only they "
                "could know; 'restart --force' if you do"
            )
        return f"waiting for room: {self._room.shortage(spec.slots)}"

    def _launch(self, state: State, spec: Spec) -> Command | None:
        among = self._where_it_may_run()
        node = self._room.place(spec.slots, among=among)
        if node is None:
            reason = self._no_room(spec, among)
            known = state.phase is Phase.PENDING and state.reason == reason
            return None if known else self._settle(state, Phase.PENDING, reason)
        self._room.occupy(node, spec.slots)
        attempt = Attempt(self._job.attempt + 1)
        versions = state.versions.begin(self._job.version, first=state.attempt == 0)
        started = state.becoming(
            Phase.STARTING,
            f"attempt {attempt} was given to {node}{_told(versions, state.versions, spec)}",
            wall=self._now.wall,
            epoch=self._snapshot.epoch,
            attempt=attempt,
            node=node,
            restarts=state.restarts + (state.attempt > 0),
            heard=self._job.word,
            versions=versions,
        )
        return Launch(self._job.id, node, started)

    def _settle(
        self,
        state: State,
        phase: Phase,
        reason: str,
        *,
        attempt: Attempt | None = None,
        lease: Lease | None = None,
        failures: restart_strategy.Failures | None = None,
        losses: int | None = None,
        not_before: float = 0.0,
    ) -> Settle:
        node = lease.node if lease is not None else None
        # What is wanted of a living attempt its runner has to hear, so that word is not done with yet.
        alive = lease is not None or phase is Phase.PENDING
        return Settle(
            self._job.id,
            state.becoming(
                phase,
                reason,
                wall=self._now.wall,
                epoch=self._snapshot.epoch,
                attempt=attempt,
                node=node,
                failures=failures,
                losses=losses,
                heard=None if alive else self._job.word,
                not_before=not_before,
            ),
        )


def _told(versions: Versions, before: Versions, spec: Spec) -> str:
    """What is to be said of an attempt that begins with another version."""
    if versions.current == before.current:
        return ""
    return f", with version {versions.current}: {spec.script}" + (f", by {spec.by}" if spec.by else "")
