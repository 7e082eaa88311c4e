"""Runners, and the parts that a runner uses, that break one rule each."""

import asyncio
import dataclasses

from holdfast.model.codec import decode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Outcome, Report
from holdfast.model.unreported_outcome import UnreportedOutcome
from holdfast.runner.attempt import Runner
from holdfast.runner.lease import LeaseHolder, TakenLease
from holdfast.zk.session.client import Check, Operation, SetData, Znode
from holdfast.zk.session.client import ConnectionState as Connection
from tests.sim.jobs.cluster.driver_execution import SimDriverExecution
from tests.sim.jobs.cluster.peers import SimGrantedPromises
from tests.sim.jobs.cluster.shared_storage import SharedStorage
from tests.sim.jobs.cluster.watchdog import SimWatchdog
from tests.sim.leadership.agent_node import PATHS


class RunnerDeadlineFromReply(Runner):
    """Runner whose confirmation counts from the time of the reply."""

    def _confirm(self, sent_at: float) -> None:
        now = self._clock.boottime()
        before = now - self._timing.tick_s
        self._session.confirmation.record_contact(sent_at=before, answered_at=before)
        super()._confirm(now)


class ReadAsHeartbeat(Runner):
    """Runner that after its first heartbeat only reads its lease, and takes that for a confirmation."""

    async def _step_while_connected(self, taken: TakenLease) -> None:
        sent_at, session = self._clock.boottime(), self._session
        if session.holder._version == 0:
            await super()._step_while_connected(taken)
        elif sent_at >= session.heartbeat_sent_at + self._timing.heartbeat_s:
            await session.client.get(PATHS.job(self._assignment.job, "lease"))
            self._confirm(sent_at)


class KillsWhenSuspended(Runner):
    """Runner that kills the driver when the connection is lost."""

    async def _supervise_once(self, taken: TakenLease) -> None:
        if self._session.state is Connection.SUSPENDED:
            self._kill_driver(Ending.LOST, "the connection was lost")
        await super()._supervise_once(taken)


class PromiseWithoutMargin(Runner):
    """Runner that uses a promise until just the kill time is left."""

    def _promise_deadline(self, nodes: tuple[NodeId, ...]) -> float:
        return self._peers.promised_until(nodes) - self._timing.kill_s


class AsksConfirmedSetOnly(Runner):
    """Runner that uses only the last failsafe set that is certainly written, and ignores a later set that may be written."""

    def _extend_by_promises(self) -> None:
        self._session.holder._possible_failsafe_nodes = ()
        super()._extend_by_promises()


class ReportsWithoutLease(Runner):
    """Runner that reports an outcome even if it no longer holds the lease."""

    async def _release_lease(self, outcome: Outcome) -> None:
        await super()._release_lease(outcome)
        holder = self._session.holder
        fresh = self._connect(lambda: None)
        for _ in range(100):
            if fresh.state is Connection.CONNECTED:
                break
            await asyncio.sleep(0.05)
        path = PATHS.job(self._assignment.job, "report")
        if fresh.state is Connection.CONNECTED and holder._report is not None:
            from holdfast.model.codec import encode

            znode = await fresh.get(path)
            report = dataclasses.replace(holder._report, outcome=outcome, dead=True)
            if decode(Report, znode.data, where=path) != report:
                await fresh.commit([SetData(path, encode(report), znode.stat.version)])
        await fresh.close()


class RetakesAnyAttempt(LeaseHolder):
    """Lease that is taken again without a check of the attempt number."""

    def _check_still_newest(self, attempt: Znode) -> None:
        """Accept every attempt number."""

    def _retake_operations(self, attempt: Znode, own_report: Report, report: Znode) -> list[Operation]:
        operations = super()._retake_operations(attempt, own_report, report)
        return [each for each in operations if not each.path.endswith("/attempt")]


class RetakesWithoutAttemptCheck(Runner):
    lease_holder_class = RetakesAnyAttempt


class RetakesOnlyLease(LeaseHolder):
    """Lease that is taken again without a write of the report."""

    def _retake_operations(self, attempt: Znode, own_report: Report, report: Znode) -> list[Operation]:
        operations = super()._retake_operations(attempt, own_report, report)
        unchanged = Check(self._path("report"), report.stat.version)
        return [unchanged if each.path.endswith("/report") else each for each in operations]


class RetakesWithoutReportWrite(Runner):
    lease_holder_class = RetakesOnlyLease


class RetakesAfterDeadline(Runner):
    """Runner that keeps the driver until a new session has taken the lease, even if no promise is in force."""

    def _continue_without_session(self) -> None:
        self._promised_until = max(self._promised_until, self._clock.boottime() + self._session.timeout_s)
        super()._continue_without_session()


class NewSessionAsConfirmation(Runner):
    """Runner that takes a new session for a confirmation of the lease."""

    async def _retake_lease(self) -> None:
        self._session.confirm(self._clock.boottime())
        self._update_deadline()
        await super()._retake_lease()


class MajorityOfPromises(SimGrantedPromises):
    """Promises of which a majority is accepted."""

    def _combine(self, until: list[float]) -> float:
        return sorted(until, reverse=True)[len(until) // 2] if until else float("-inf")


class WatchdogWithoutDeadline(SimWatchdog):
    kills_at_deadline = False


class WatchdogWithoutStartCheck(SimWatchdog):
    checks_deadline_at_start = False


class ExecutionWithoutDeadline(SimDriverExecution):
    watchdog_class = WatchdogWithoutDeadline


class ExecutionWithoutStartCheck(SimDriverExecution):
    watchdog_class = WatchdogWithoutStartCheck


class ReadyAtOnce(SimDriverExecution):
    """Driver execution that does not wait for Spark."""

    @property
    def is_ready(self) -> bool:
        return True


class LateStartIsJobFailure(SimDriverExecution):
    """Driver execution that reports a start refused after the deadline as a driver that can never start."""

    def _late_start_outcome(self) -> Outcome:
        return Outcome(Ending.UNSTARTABLE, "the deadline had passed before the driver was started")


class ReadsLastOutcomeOnly(SharedStorage):
    """Storage that returns only the outcome of the previous attempt, and only if that attempt has reported none."""

    async def find_unreported_outcome(
        self, job: JobId, attempt: Attempt, previous_report: Report | None, *, is_scheduled: bool
    ) -> UnreportedOutcome | None:
        await self._delay()
        if previous_report is None or previous_report.outcome is not None:
            return None
        outcome = self.outcomes.get(job, {}).get(previous_report.attempt)
        return UnreportedOutcome(previous_report.attempt, outcome) if outcome is not None else None


class TakesLossForOutcome(SharedStorage):
    """Storage that ignores earlier outcomes after a report that says LOST."""

    async def find_unreported_outcome(
        self, job: JobId, attempt: Attempt, previous_report: Report | None, *, is_scheduled: bool
    ) -> UnreportedOutcome | None:
        if previous_report is not None and previous_report.outcome is not None:
            previous_report = None
        return await super().find_unreported_outcome(job, attempt, previous_report, is_scheduled=is_scheduled)


class ForgetsUnreportedAttempts(LeaseHolder):
    """Lease whose report names its own attempt as the first one without a reported outcome."""

    async def _prepare_transaction(self, started_at: float, failsafe: tuple[NodeId, ...]) -> tuple[TakenLease, list[Operation]]:
        taken, operations = await super()._prepare_transaction(started_at, failsafe)
        assert self._report is not None and isinstance(operations[-1], SetData)
        self._report = dataclasses.replace(self._report, first_unreported=self._assignment.attempt)
        report = SetData(operations[-1].path, self._encode(self._report), operations[-1].version)
        return taken, [*operations[:-1], report]


class ReportsOnlyItself(Runner):
    lease_holder_class = ForgetsUnreportedAttempts


class IgnoresOutcomes(SharedStorage):
    """Storage that never returns the claims and outcomes in the checkpoint."""

    async def find_unreported_outcome(
        self, job: JobId, attempt: Attempt, previous_report: Report | None, *, is_scheduled: bool
    ) -> UnreportedOutcome | None:
        await self._delay()
        return None
