"""Runners, and the parts that a runner uses, that break one rule each."""

import asyncio
import dataclasses
from typing import Any

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import Ending, Outcome, Report
from holdfast.runner.attempt import Runner
from holdfast.runner.lease import LeaseHolder
from holdfast.zk.session.client import Client, SetData
from holdfast.zk.session.client import ConnectionState as Connection
from tests.sim.jobs.cluster.driver_execution import SimDriverExecution
from tests.sim.jobs.cluster.peers import SimPeers
from tests.sim.jobs.cluster.shared_storage import SharedStorage
from tests.sim.jobs.cluster.watchdog import SimWatchdog
from tests.sim.leadership.agent_node import PATHS


class RunnerDeadlineFromReply(Runner):
    """Runner whose confirmation counts from the time of the reply."""

    def _confirm(self, client: Client, sent_at: float) -> None:
        now = self._clock.boottime()
        before = now - self._timing.tick_s
        self._confirmation.record_contact(sent_at=before, answered_at=before)
        super()._confirm(client, now)


class FirstWriteTrusted(Runner):
    def _confirm(self, client: Client, sent_at: float) -> None:
        before = sent_at - self._timing.tick_s
        self._confirmation.record_contact(sent_at=before, answered_at=before)
        super()._confirm(client, sent_at)


class ReadAsHeartbeat(Runner):
    """Runner that after its first heartbeat only reads its lease, and takes that for a confirmation."""

    async def _step_while_connected(self, client: Client, holder: LeaseHolder, taken: Any) -> None:
        sent_at = self._clock.boottime()
        if holder._version == 0:
            await super()._step_while_connected(client, holder, taken)
        elif sent_at >= self._heartbeat_sent_at + self._timing.heartbeat_s:
            await client.get(PATHS.job(self._assignment.job, "lease"))
            self._confirm(client, sent_at)


class KillsWhenSuspended(Runner):
    """Runner that kills the driver when the connection is lost."""

    async def _supervise_once(self, client: Client, holder: LeaseHolder, taken: Any) -> None:
        if client.state is Connection.SUSPENDED:
            self._kill_driver(Ending.LOST, "the connection was lost")
        await super()._supervise_once(client, holder, taken)


class PromiseWithoutMargin(Runner):
    """Runner that uses a promise until just the kill time is left."""

    async def _request_promises(self) -> None:
        before = self._promised_until
        await super()._request_promises()
        if self._promised_until > before:
            self._promised_until += self._timing.margin_s - self._timing.kill_s
            self._update_deadline()


class PromiseFromReply(Runner):
    """Runner whose promise counts from the reply and is used until just the kill time is left.

    The margin alone would hide the error.
    """

    async def _request_promises(self) -> None:
        before = self._promised_until
        await super()._request_promises()
        if self._promised_until > before:
            self._promised_until = self._clock.boottime() + self._granted_s + self._timing.margin_s - self._timing.kill_s
            self._update_deadline()


class AsksConfirmedSetOnly(Runner):
    """Runner that asks only the last failsafe set that is certainly written, and ignores a later set that may be written."""

    async def _request_promises(self) -> None:
        if self._lease_holder is not None:
            self._lease_holder._possible_failsafe_nodes = ()
        await super()._request_promises()


class ReportsWithoutLease(Runner):
    """Runner that reports an outcome even if it no longer holds the lease."""

    async def _release_lease(self, client: Client, holder: LeaseHolder, outcome: Outcome) -> None:
        await super()._release_lease(client, holder, outcome)
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


class MajorityOfPromises(SimPeers):
    """Peers that accept a majority of promises."""

    async def request_promises(self, nodes: Any, assignment: Any, period_s: float) -> bool:
        answers = await asyncio.gather(
            *(self._request_promise(NodeId(address), assignment, period_s) for address in nodes.values())
        )
        return sum(answers) * 2 > len(answers)


class WatchdogWithoutDeadline(SimWatchdog):
    kills_at_deadline = False


class WatchdogWithoutStartCheck(SimWatchdog):
    checks_deadline_at_start = False


class ExecutionWithoutDeadline(SimDriverExecution):
    watchdog_class = WatchdogWithoutDeadline


class ExecutionWithoutStartCheck(SimDriverExecution):
    watchdog_class = WatchdogWithoutStartCheck


class LateStartIsJobFailure(SimDriverExecution):
    """Driver execution that reports a start refused after the deadline as a driver that can never start."""

    def _late_start_outcome(self) -> Outcome:
        return Outcome(Ending.UNSTARTABLE, "the deadline had passed before the driver was started")


class ChecksLastAttemptOnly(SharedStorage):
    """Storage that returns only the outcome of the previous attempt."""

    checks_all_attempts = False


class IgnoresOutcomes(SharedStorage):
    """Storage that never returns the claims and outcomes in the checkpoint."""

    async def find_unreported_outcome(self, job: JobId, previous_report: Report | None) -> Outcome | None:
        await self._delay()
        return None
