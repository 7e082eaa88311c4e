"""Planner: decides at most one command per job from a snapshot of the cluster."""

from collections.abc import Callable
from dataclasses import replace

from holdfast.model.codec import UnreadableRecord
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, JobState, Lease, Report, Spec
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.plan.command import Command, Launch, WithdrawOrder
from holdfast.plan.defective_job import find_defect, handle_defect, review_quarantined
from holdfast.plan.ended_attempt import EndedAttempt
from holdfast.plan.placement import FreeSlots
from holdfast.plan.scheduled_run import ScheduledRun, describe_run, resume_schedule
from holdfast.plan.snapshot import JobView, Now, Snapshot
from holdfast.plan.state_change import CANCELLED_REASON, STOPPED_REASON, StateChanger

ErrorListener = Callable[[JobId, Exception], None]
"""Receiver of an error in the decision about one job."""


def plan(snapshot: Snapshot, now: Now, *, on_error: ErrorListener | None = None) -> list[Command]:
    """Return the commands of this pass. Free slots go to the job that has waited longest.

    With `on_error`, an error in the decision about one job is passed to it, the job is left as it is, and the other jobs are
    planned as usual. Without `on_error`, the error is raised.
    """
    free_slots = FreeSlots(snapshot.nodes)
    for job in snapshot.jobs.values():
        _reserve_slots(free_slots, job)
    commands: list[Command] = []
    for job in sorted(snapshot.jobs.values(), key=_waiting_order):
        try:
            command = _JobPlanner(snapshot, free_slots, job, now).decide()
        except Exception as error:
            if on_error is None:
                raise
            on_error(job.id, error)
        else:
            if command is not None:
                commands.append(command)
    return [*commands, *_withdraw_stray_orders(snapshot)]


def _reserve_slots(free_slots: FreeSlots, job: JobView) -> None:
    slots = job.spec.slots if isinstance(job.spec, Spec) else 1
    if isinstance(job.lease, Lease):
        free_slots.reserve(job.lease.node, slots)
    elif isinstance(job.state, JobState) and job.state.phase.occupies_slots and job.state.node is not None:
        free_slots.reserve(job.state.node, slots)


def _waiting_order(job: JobView) -> tuple[float, str]:
    """Return the sort key of a job: the wall time at which it began to wait. A new reason for waiting does not reset it."""
    if isinstance(job.state, JobState) and job.state.phase is Phase.SCHEDULED:
        return (job.state.not_before, job.id)
    since = 0.0
    for event in reversed(job.state.events if isinstance(job.state, JobState) else ()):
        if event.phase not in (Phase.PENDING, Phase.BACKOFF):
            break
        since = event.wall
    return (since, job.id)


def _withdraw_stray_orders(snapshot: Snapshot) -> list[Command]:
    withdrawals: list[Command] = []
    for node, jobs in snapshot.orders.items():
        for id in sorted(jobs):
            job = snapshot.jobs.get(id)
            state = job.state if job is not None else None
            if isinstance(state, UnreadableRecord) or (job is not None and job.newer_record is not None):
                continue  # without readable records, the order cannot be judged
            if not isinstance(state, JobState) or state.node != node or not state.phase.occupies_slots:
                withdrawals.append(WithdrawOrder(id, node, "the order does not match the job's state"))
    return withdrawals


class _JobPlanner:
    """Decision about one job."""

    def __init__(self, snapshot: Snapshot, free_slots: FreeSlots, job: JobView, now: Now) -> None:
        self._snapshot = snapshot
        self._free_slots = free_slots
        self._job = job
        self._now = now
        self._changer = StateChanger(job, snapshot.epoch, now)

    def decide(self) -> Command | None:
        """Return the command for this job, or None if nothing is to be done."""
        job = self._job
        if job.newer_record is not None:
            return None  # a node with a later version manages the job
        if isinstance(job.state, JobState) and job.state.phase.final:
            return None  # a job that has ended never runs again, whichever znodes are left
        if isinstance(job.lease, UnreadableRecord):
            return None  # an attempt is alive; its next heartbeat rewrites the lease
        in_quarantine = job.id in self._snapshot.quarantined
        if isinstance(job.state, JobState) and job.state.phase is Phase.QUARANTINED:
            return review_quarantined(self._changer, job.state, has_record=in_quarantine)
        if in_quarantine and job.lease is None:
            return None  # only a user's release ends a quarantine, even if the znodes are repaired in the meantime
        if (defect := find_defect(job)) is not None:
            return None if in_quarantine else handle_defect(self._changer, defect)
        assert isinstance(job.state, JobState) and isinstance(job.spec, Spec) and isinstance(job.desired, Desired)
        if isinstance(job.lease, Lease):
            return self._decide_alive(job.state, job.desired, job.lease)
        return self._decide_not_alive(job.state, job.spec, job.desired)

    def _decide_alive(self, state: JobState, desired: Desired, lease: Lease) -> Command | None:
        if state.phase is Phase.STOPPING:
            return None  # also if the stop was revoked: the attempt ends, and the next one starts after it
        if desired is not Desired.RUN:
            reason = f"a user asked to {desired} the job"
        elif state.phase is Phase.PARKED:
            reason = "the job is parked, but an attempt is alive"
        else:
            # An attempt that runs never starts again, whatever a lease of another release says.
            phase = Phase.STARTING if lease.starting and state.phase is not Phase.RUNNING else Phase.RUNNING
            if state.phase is phase and self._describes(state, lease):
                return None
            return self._changer.change(state, phase, lease.reason, attempt=lease.attempt, lease=lease)
        return self._changer.change(state, Phase.STOPPING, reason, attempt=lease.attempt, lease=lease)

    @staticmethod
    def _describes(state: JobState, lease: Lease) -> bool:
        """Return True if the state names this attempt and contains its note, which may arrive after the lease."""
        return (state.attempt, state.node) == (lease.attempt, lease.node) and lease.note in state.reason

    def _decide_not_alive(self, state: JobState, spec: Spec, desired: Desired) -> Command | None:
        if state.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            return EndedAttempt(self._snapshot, self._changer, state, spec, desired).decide()
        if desired is Desired.CANCEL:
            return self._changer.change(state, Phase.CANCELLED, CANCELLED_REASON)
        if desired is Desired.STOP:
            return None if state.phase is Phase.PARKED else self._changer.change(state, Phase.PARKED, STOPPED_REASON)
        if state.phase is Phase.PARKED:
            return self._resume(state, spec) if self._has_new_request(state) else None
        if spec.schedule is not None:
            prepared = ScheduledRun(self._changer, spec.schedule, spec.restart).prepare(state)
            if not isinstance(prepared, JobState):
                return prepared
            state = prepared
        if state.phase is Phase.BACKOFF and self._now.wall < state.not_before and not self._has_new_request(state):
            return None
        return self._launch(state, spec)

    def _resume(self, state: JobState, spec: Spec) -> Command:
        runs = resume_schedule(state, spec.schedule, self._now.wall)
        trust = f"; {self._job.trust}" if self._job.trust is not None else ""
        return self._changer.change(state, Phase.PENDING, f"a user resumed the job{trust}", runs=runs)

    def _has_new_request(self, state: JobState) -> bool:
        return self._job.desired_version > state.heard

    def _launch(self, state: JobState, spec: Spec) -> Command | None:
        allowed = self._allowed_nodes()
        node = self._free_slots.choose_node(spec.slots, allowed=allowed, avoided=state.lost_on)
        if node is None:
            return self._wait_for_node(state, spec, allowed)
        self._free_slots.reserve(node, spec.slots)
        attempt = Attempt(self._job.attempt + 1)
        versions = state.versions.start_attempt(self._job.spec_version, first=state.attempt == 0)
        is_same_program = versions.current == state.versions.current
        runs = (
            state.runs.start_attempt(attempt, self._now.wall) if state.runs is not None and spec.schedule is not None else None
        )
        details = describe_run(runs, spec.schedule) + _describe_upgrade(versions, state.versions, spec)
        is_restart = state.attempt > 0 if runs is None or runs.run is None else runs.run.attempts > 1
        started = state.transition_to(
            Phase.STARTING,
            f"attempt {attempt} was assigned to {node}{details}",
            wall=self._now.wall,
            epoch=self._snapshot.epoch,
            attempt=attempt,
            node=node,
            restarts=state.restarts + is_restart,
            failures=state.failures if is_same_program else replace(state.failures, without_progress=0),
            heard=self._job.desired_version,
            versions=versions,
            runs=runs,
        )
        return Launch(self._job.id, node, started)

    def _allowed_nodes(self) -> tuple[NodeId, ...] | None:
        """Return the nodes on which the next attempt may start; None means any node.

        Without a death certificate, failsafe promises may keep the previous attempt alive. Only the nodes that gave these
        promises know about them, so only they may start the next attempt.
        """
        report, state = self._job.report, self._job.state
        if not isinstance(report, Report) or report.dead or not report.failsafe:
            return None
        forced = self._job.force and isinstance(state, JobState) and self._has_new_request(state)
        return None if forced else report.failsafe

    def _wait_for_node(self, state: JobState, spec: Spec, allowed: tuple[NodeId, ...] | None) -> Command | None:
        reason = self._describe_wait(spec, allowed)
        old = self._job.state
        has_new_run = isinstance(old, JobState) and state.runs != old.runs
        already_known = state.phase is Phase.PENDING and state.reason == reason and not has_new_run
        return None if already_known else self._changer.change(state, Phase.PENDING, reason)

    def _describe_wait(self, spec: Spec, allowed: tuple[NodeId, ...] | None) -> str:
        if allowed is not None and not any(node in self._snapshot.nodes for node in allowed):
            return (
                f"waiting for {' or '.join(allowed)}: the previous driver may still be running; "
                "if you have switched its machine off, run 'holdfast restart --force'"
            )
        return self._free_slots.describe_wait(spec.slots, allowed=allowed)


def _describe_upgrade(versions: Versions, before: Versions, spec: Spec) -> str:
    """Return the part of the reason that names the new version, or an empty string if the version is unchanged."""
    if versions.current == before.current:
        return ""
    return f", with version {versions.current}: {spec.script}" + (f", by {spec.by}" if spec.by else "")
