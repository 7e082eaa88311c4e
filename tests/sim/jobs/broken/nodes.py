"""Order executors, attempt operations and promises of nodes that break one rule each."""

from typing import Any

from holdfast.model.codec import decode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import INITIAL_VERSIONS, Order, Report
from holdfast.node.agent import Agent
from holdfast.node.attempts import AttemptId
from holdfast.node.expiry_certificate import ExpiryCertifier
from holdfast.node.failsafe.exchange import Answers, PromiseExchange
from holdfast.node.failsafe.promises import FailsafePromises
from holdfast.node.membership import Membership
from holdfast.node.order_executor import OrderExecutor
from holdfast.zk.session.client import Client, NoNode, Znode
from holdfast.zk.session.client import ConnectionState as Connection
from holdfast.zk.session.verified_client import VerifiedClient
from tests.sim.jobs.broken.clients import HidesLeases, HidesReports
from tests.sim.jobs.cluster.driver_execution import kill_and_wait
from tests.sim.jobs.cluster.node_attempts import SimAttemptOperations
from tests.sim.leadership.agent_node import PATHS


class OrdersBeforeRecognition(Agent):
    """Agent that executes orders and leads as soon as it is connected, before it has verified the cluster."""

    async def _register(self, client: VerifiedClient, membership: Membership) -> Znode:
        client.accept(client.connection_count)
        if self._role_loops is not None:
            self._role_loops.on_verified(client)
        return await super()._register(client, membership)


class VerifiesOncePerSession(Agent):
    """Agent that does not verify the cluster again after it has reconnected within a session."""

    _verified: VerifiedClient | None = None

    async def _register(self, client: VerifiedClient, membership: Membership) -> Znode:
        epoch = await super()._register(client, membership)
        self._verified = client
        return epoch

    def _on_wakeup(self, client: Client) -> None:
        if self._verified is not None and self._verified.unverified is client:
            self._verified.accept(client.connection_count)
        super()._on_wakeup(client)


class ExecutesAnyOrder(OrderExecutor):
    """Order executor that starts the attempt of any order without reading `state`."""

    async def _execute(self, client: Client, job: JobId) -> bool:
        try:
            order = decode(Order, (await client.get(PATHS.order(self._node, job))).data, where="order")
        except NoNode:
            return False
        if any((name.job, name.attempt) == (job, order.attempt) for name in self._attempts.list_open()):
            return True
        if order.attempt > max((name.attempt for name in self._attempts.list_open() if name.job == job), default=0):
            await self._attempts.spawn(AttemptId(job, order.attempt, self._nonce()), INITIAL_VERSIONS)
        return False


class RunsAttemptAgain(OrderExecutor):
    """Order executor that runs an attempt again while an order for it exists."""

    async def _execute(self, client: Client, job: JobId) -> bool:
        return await super()._execute(HidesReports(client, lambda _: False), job)


class ClosesSessionFirst(OrderExecutor):
    """Order executor that closes the session of a dead runner before its driver is dead."""

    async def _certify_dead(self, client: Client, attempt_id: AttemptId) -> None:
        await self._attempts.close_session(attempt_id)
        await super()._certify_dead(client, attempt_id)


class CertifiesBeforeKill(OrderExecutor):
    """Order executor that writes the death certificate before all processes are dead."""

    async def _certify_dead(self, client: Client, attempt_id: AttemptId) -> None:
        if client.state is Connection.CONNECTED and attempt_id not in self._certifying:
            await self._write_certificate(client, attempt_id)
        await super()._certify_dead(client, attempt_id)


class LeavesOlderAttempts(OrderExecutor):
    """Order executor that starts an attempt without ending the older attempts of the job on its node."""

    async def _end_older_attempts(self, client: Client, job: JobId, attempt: Attempt, report: Report | None) -> bool:
        return True


class CertifiesWithoutKillingRunner(OrderExecutor):
    """Order executor that kills the driver of an attempt that it ends, but not the runner and the watchdog."""

    async def _kill_and_certify(self, client: Client, attempt_id: AttemptId) -> None:
        await self._write_certificate(client, attempt_id)
        self._attempts.mark_closed(attempt_id)


class CertifiesWithoutWaiting(OrderExecutor):
    """Order executor that certifies an attempt of another node while its own promise is in force."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._expiry = _CertifierWithoutWait(self._paths, self._node, self._promises, self._log)


class _CertifierWithoutWait(ExpiryCertifier):
    def _stop_renewing(self, order: Order, report_version: int) -> float:
        super()._stop_renewing(order, report_version)
        return 0.0


class CertifiesDespiteLease(OrderExecutor):
    """Order executor that certifies an attempt of another node although its runner has taken the lease again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._expiry = _CertifierWithoutLease(self._paths, self._node, self._promises, self._log)


class _CertifierWithoutLease(ExpiryCertifier):
    async def certify(self, client: Client, order: Order) -> bool:
        return await super().certify(HidesLeases(client), order)

    def _stop_renewing(self, order: Order, report_version: int) -> float:
        super()._stop_renewing(order, report_version)
        return self._promises.remaining_s(order.job, Attempt(order.attempt + 1))


class RenewsOrderedPromises(FailsafePromises):
    """Promises that are renewed for an attempt that the leader has ordered to end."""

    def refuse(self, job: JobId, attempt: Attempt) -> None: ...


class PipeEndIsDeath(SimAttemptOperations):
    """Attempt operations that take the end of a pipe for death. A restarted agent has no pipes to earlier runners."""

    def is_running(self, attempt_id: AttemptId) -> bool:
        runner = self._files(attempt_id).runner
        return runner in self._watched and super().is_running(attempt_id)


class KillsOnlyDriver(SimAttemptOperations):
    """Attempt operations that kill only processes with the nonce. A driver that the watchdog is just starting has none yet."""

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        await self._delay()
        watchdog = self._machine.watchdogs.get(attempt_id.nonce)
        driver = watchdog.driver if watchdog is not None else None
        if driver is not None and driver.alive:
            await kill_and_wait(driver)
        return True


class NoWaitAfterReboot(FailsafePromises):
    def _load(self) -> None:
        super()._load()
        self._no_start_before = float("-inf")


class PromiseCountedFromReply(PromiseExchange):
    """Exchange whose promises count from the reply."""

    def _record(self, node: NodeId, attempts: list[AttemptId], answers: Answers, *, until: float) -> None:
        super()._record(node, attempts, answers, until=self._clock.boottime() + self._period_s)
