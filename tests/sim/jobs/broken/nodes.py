"""Order executors, attempt operations and promises of nodes that break one rule each."""

from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import INITIAL_VERSIONS, Order
from holdfast.node.attempts import AttemptId
from holdfast.node.order_executor import OrderExecutor
from holdfast.zk.session.client import Client, NoNode
from holdfast.zk.session.client import ConnectionState as Connection
from tests.sim.jobs.broken.clients import (
    HidesReports,
)
from tests.sim.jobs.cluster.driver_execution import kill_and_wait
from tests.sim.jobs.cluster.job_node import SimFailsafePromises
from tests.sim.jobs.cluster.node_attempts import SimAttemptOperations
from tests.sim.leadership.agent_node import PATHS


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


class UnsyncedPromises(SimFailsafePromises):
    fsync = False


class NoWaitAfterReboot(SimFailsafePromises):
    def _load(self, period_s: float) -> None:
        super()._load(period_s)
        self._no_start_before = float("-inf")
