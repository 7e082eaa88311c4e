"""Decisions about a job whose last attempt is no longer alive."""

from dataclasses import dataclass, replace

from holdfast.model import restart_strategy
from holdfast.model.failure_history import FailureHistory, LastFailure, is_healthy_run
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.model.plural import format_count
from holdfast.plan.command import Command, EndAttempt
from holdfast.plan.scheduled_run import ScheduledRun
from holdfast.plan.snapshot import Snapshot
from holdfast.plan.state_change import CANCELLED_REASON, STOPPED_REASON, StateChanger

LOSSES_WITHOUT_DELAY = 1
"""Lost attempts in a row after which the next attempt still starts at once."""
LOSS_DELAY_S_MAX = 60.0
LOST_ON_MAX = 10
"""Nodes that a job's state remembers."""
STABLE_RUN_S = 60.0
"""Run time after which the loss of an attempt is not attributed to its start, and the count of losses begins anew."""
FAILURES_WITHOUT_PROGRESS_MAX = 3
"""Failures of a script that never made progress after which the default strategy ends the job."""


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """Last attempt of a job whose lease is gone, and the decision that follows."""

    snapshot: Snapshot
    changer: StateChanger
    state: JobState
    spec: Spec
    desired: Desired

    def decide(self) -> Command | None:
        """Return the state that follows the attempt, the order to end it, or None while its processes may still be running."""
        if not self._is_dead():
            return self._order_end()
        report, state = self._report, self._with_progress()
        if self.desired is Desired.CANCEL:
            return self.changer.change(state, Phase.CANCELLED, CANCELLED_REASON)
        outcome = report.outcome if report is not None and report.outcome is not None else self._loss()
        command = self._stop_or_finish(state, outcome) or self._restart_or_fail(state, outcome)
        schedule = self.spec.schedule
        if schedule is None:
            return command
        return ScheduledRun(self.changer, schedule, self.spec.restart).end(command, state, outcome, self.desired)

    def _with_progress(self) -> JobState:
        """Return the state with the progress that the attempt reported."""
        report = self._report
        if report is None:
            return self.state
        # A runner of an earlier release reports the first batch only as progress.
        has_batch = report.proven or (report.progress is not None and report.progress.batch_id is not None)
        return replace(
            self.state,
            versions=self.state.versions.accept() if report.proven else self.state.versions,
            progressed=self.state.progressed or has_batch or is_healthy_run(report.started, self.changer.now.wall),
        )

    @property
    def _report(self) -> Report | None:
        report = self.changer.job.report
        return report if isinstance(report, Report) and report.attempt == self.state.attempt else None

    def _is_dead(self) -> bool:
        """Return True if every process of the attempt is certainly gone.

        Either the report certifies it, or the lease has been missing for a margin and the node cannot be asked.
        An attempt without a report has never held the lease. It cannot take the lease once the next number is assigned,
        nor while the job is not meant to run; the leader waits only to give it time to start.
        """
        report = self._report
        not_started = report is None and self.state.phase is Phase.STARTING
        if (report is not None and report.dead) or (not_started and self.desired is not Desired.RUN):
            return True
        if not_started:
            may_start = self.state.node in self.snapshot.nodes
            return self._lease_is_gone_for(self.snapshot.start_s if may_start else self.snapshot.margin_s)
        if not self._lease_is_gone_for(self.snapshot.margin_s):
            return False
        return self._is_forced or (self._find_certifier() is None and self._is_dead_by_clock())

    def _lease_is_gone_for(self, duration_s: float) -> bool:
        since = self.changer.job.lease_gone_since
        return since is not None and self.changer.now.boot - since >= duration_s

    @property
    def _is_forced(self) -> bool:
        """True if a user has asserted, after the attempt began, that it is dead."""
        return self.changer.job.force and self.changer.job.desired_version > self.state.heard

    def _find_certifier(self) -> NodeId | None:
        """Return the node that can certify the death, or None if only the clock can decide.

        It is the node of the attempt if that node is registered. If it is gone, any node of the failsafe set can certify that
        its promise has run out. The attempt may be alive without a lease only as long as all of them renew their promises.
        """
        report = self._report
        if report is None:
            return None
        if (own := self.snapshot.nodes.get(report.node)) is not None:
            return own.id if own.ends_attempts else None
        if not self._is_dead_by_clock():
            return None
        # The node that has the order already comes first.
        candidates = sorted(report.failsafe, key=lambda node: (node != self.state.node, node))
        return next((node for node in candidates if self._certifies_expiry(node)), None)

    def _certifies_expiry(self, id: NodeId) -> bool:
        """Return True if the node is registered. A node of an earlier release would certify the death at once."""
        node = self.snapshot.nodes.get(id)
        return node is not None and node.certifies_expiry

    def _is_dead_by_clock(self) -> bool:
        """Return True if the missing lease proves the death of the attempt, by the leader's clock.

        A node of an earlier release cannot be asked. Another node must have been gone for a margin, because its agent may only
        be restarting. After a disturbance of the leader's own contact, nodes and runners get a session timeout to return.
        """
        node, boot = self._node, self.changer.now.boot
        if node is None or node in self.snapshot.nodes:
            return True
        gone_since = self.snapshot.nodes_gone_since.get(node, float("-inf"))
        is_undisturbed = boot >= self.snapshot.undisturbed_since + self.snapshot.session_timeout_s
        return is_undisturbed and boot - gone_since >= self.snapshot.margin_s

    def _order_end(self) -> Command | None:
        """Return the order to end the attempt, once its lease has been missing for a margin and unless the order exists."""
        report, job, certifier = self._report, self.changer.job, self._find_certifier()
        if report is None or certifier is None or not self._lease_is_gone_for(self.snapshot.margin_s):
            return None
        reason = f"waiting for {certifier} to confirm that attempt {report.attempt} has ended"
        if certifier != report.node:
            reason += f", because its node {report.node} is gone"
        if self.state.reason == reason and job.id in self.snapshot.orders.get(certifier, ()):
            return None
        state = self.state.transition_to(
            self.state.phase, reason, wall=self.changer.now.wall, epoch=self.changer.epoch, node=certifier
        )
        return EndAttempt(job.id, certifier, state)

    def _loss(self) -> Outcome:
        node = f"on {self._node}" if self._node is not None else "on an unknown node"
        if self._report is None:
            return Outcome(Ending.LOST, f"attempt {self.state.attempt} {node} never started")
        return Outcome(
            Ending.LOST, f"attempt {self.state.attempt} {node} was lost: its lease is gone and it reported no outcome"
        )

    @property
    def _node(self) -> NodeId | None:
        """Node of the attempt. While a leader waits for a certificate, the state names the node that certifies."""
        return self._report.node if self._report is not None else self.state.node

    def _lost_on(self) -> tuple[NodeId, ...]:
        """Return the nodes of the recent losses with the node of this one, without repetitions."""
        before, node = self.state.lost_on, self._node
        return before if node is None else (*(each for each in before if each != node), node)[-LOST_ON_MAX:]

    def _stop_or_finish(self, state: JobState, outcome: Outcome) -> Command | None:
        if outcome.ending is Ending.FINISHED:
            return self.changer.change(state, Phase.FINISHED, outcome.reason)
        if self.desired is Desired.STOP:
            return self.changer.change(state, Phase.PARKED, STOPPED_REASON)
        if outcome.ending.requires_operator:
            return self.changer.change(state, Phase.PARKED, outcome.reason)
        return None

    def _restart_or_fail(self, state: JobState, outcome: Outcome) -> Command:
        job_failed, unstartable = outcome.ending.is_job_failure, outcome.ending is Ending.UNSTARTABLE
        if state.versions.on_trial and (job_failed or unstartable):
            return self._roll_back(state, outcome)
        if unstartable:
            return self.changer.change(state, Phase.FAILED, outcome.reason)
        if job_failed:
            return self._apply_restart_strategy(state, outcome)
        if outcome.ending is Ending.LOST:
            return self._restart_after_loss(state, outcome)
        return self.changer.change(replace(state, last_failure=None), Phase.PENDING, outcome.reason, losses=0)

    def _roll_back(self, state: JobState, outcome: Outcome) -> Command:
        """Return to the previous version at once. The failure of a version on trial does not count against the job."""
        versions = state.versions.roll_back()
        reason = (
            f"version {versions.rejected} failed before its first batch: {outcome.reason}; "
            f"rolled back to version {versions.current}"
        )
        return self.changer.change(replace(self._remember(state, outcome), versions=versions), Phase.PENDING, reason)

    def _apply_restart_strategy(self, state: JobState, outcome: Outcome) -> Command:
        wall = self.changer.now.wall
        started = self._report.started if self._report is not None else None
        failures = self._count_without_progress(state, outcome, state.failures.add_failure(started=started, now=wall))
        state = self._remember(state, outcome)
        if self.spec.restart_is_default and failures.without_progress >= FAILURES_WITHOUT_PROGRESS_MAX:
            reason = f"{outcome.reason}; {_describe_no_progress(failures.without_progress)}"
            return self.changer.change(state, Phase.FAILED, reason, failures=failures)
        strategy = restart_strategy.parse_strategy(self.spec.restart)
        key = f"{self.changer.job.id}/{state.attempt}"
        verdict = restart_strategy.decide_restart(strategy, failures, now=wall, key=key)
        if isinstance(verdict, restart_strategy.GiveUp):
            return self.changer.change(state, Phase.FAILED, f"{outcome.reason}; {verdict.reason}", failures=failures)
        reason = f"{outcome.reason}; next attempt in {verdict.delay_s:.0f} s"
        return self.changer.change(state, Phase.BACKOFF, reason, failures=failures, not_before=wall + verdict.delay_s)

    def _count_without_progress(self, state: JobState, outcome: Outcome, failures: FailureHistory) -> FailureHistory:
        if state.progressed:
            return replace(failures, without_progress=0)
        # Someone outside has killed the driver, which says nothing about the script.
        is_killed = outcome.ending is Ending.KILLED
        return failures if is_killed else replace(failures, without_progress=failures.without_progress + 1)

    def _remember(self, state: JobState, outcome: Outcome) -> JobState:
        """Return the state with this end as the last failure, which is shown while the next attempts run."""
        is_loss = outcome.ending is Ending.LOST
        return replace(state, last_failure=LastFailure(state.attempt, self.changer.now.wall, outcome.reason, is_loss))

    def _restart_after_loss(self, state: JobState, outcome: Outcome) -> Command:
        """Restart without using the job's restart budget. Delay repeated losses, so that the job does not restart in a loop."""
        wall, report = self.changer.now.wall, self._report
        was_stable = report is not None and wall - report.started >= STABLE_RUN_S
        losses = 1 if was_stable else state.losses + 1
        state = replace(self._remember(state, outcome), lost_on=() if was_stable else self._lost_on())
        if losses <= LOSSES_WITHOUT_DELAY:
            return self.changer.change(state, Phase.PENDING, outcome.reason, losses=losses)
        delay_s = min(2.0 ** min(losses - LOSSES_WITHOUT_DELAY - 1, 16), LOSS_DELAY_S_MAX)
        reason = f"{outcome.reason}; lost {losses} times in a row, next attempt in {delay_s:.0f} s"
        return self.changer.change(state, Phase.BACKOFF, reason, losses=losses, not_before=wall + delay_s)


def _describe_no_progress(failures: int) -> str:
    return (
        f"the script failed {format_count(failures, 'time')} and never completed a batch, so it is not started again: correct "
        "it and submit it again, or submit it with a restart strategy, such as --restart exponential"
    )
