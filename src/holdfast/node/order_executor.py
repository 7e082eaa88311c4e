"""Execution of the leader's orders: start ordered attempts, and certify that attempts with a dead runner are dead.

An order is only an index of a job's state. The node ignores an order that does not match the state, and an order for an attempt
that has already run. It delays an order for an attempt that it has promised not to start yet.

After a runner's death the node kills all processes of the driver, certifies the death in the report, and closes the runner's
session. So the next attempt never overlaps the dead one, and need not wait until the session expires.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from holdfast.errors import Conflict, HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, JobState, Order, Outcome, Report
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, Committed, ConnectionState, NoNode, SetData


class AttemptOperations(Protocol):
    """Operations on the attempts of this node; implemented by `node.attempts.NodeAttempts`."""

    def list_open(self) -> list[AttemptId]: ...
    def is_running(self, attempt_id: AttemptId) -> bool: ...
    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None: ...
    async def kill_tree(self, attempt_id: AttemptId) -> bool: ...
    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None: ...
    async def close_session(self, attempt_id: AttemptId) -> bool: ...
    def mark_closed(self, attempt_id: AttemptId) -> None: ...


RETRY_S = 1.0
"""Delay before the same attempt is started again; doubles with each start."""

RemainingS = Callable[[JobId, Attempt], float]
"""Return the seconds until an attempt may be started."""


class OrderExecutor:
    def __init__(
        self,
        paths: Paths,
        node: NodeId,
        *,
        attempts: AttemptOperations,
        promise_remaining_s: RemainingS,
        nonce: Callable[[], str],
        log: Log,
    ) -> None:
        self._paths = paths
        self._node = node
        self._attempts = attempts
        self._promise_remaining_s = promise_remaining_s
        self._nonce = nonce
        self._log = log
        self._orders: dict[JobId, bool] = {}
        """Orders of this node; the value is False once there is nothing left to do for the order."""
        self._orders_changed = True
        self._starts: dict[tuple[JobId, Attempt], tuple[int, float]] = {}
        """Number of starts of each attempt, and the earliest time of the next: its runner may die before it takes the lease."""
        self._certifying: set[AttemptId] = set()

    def on_watch_events(self, paths: Iterable[str]) -> None:
        orders = self._paths.node_orders(self._node)
        if any(path in (ANY_PATH, orders) for path in paths):
            self._orders_changed = True

    async def run_pass(self, client: Client) -> None:
        await self._certify_dead_attempts(client)
        if client.state is ConnectionState.CONNECTED:
            await self._execute_orders(client)

    # Orders

    async def _execute_orders(self, client: Client) -> None:
        if self._orders_changed:
            await self._read_orders(client)
        for job, due in sorted(self._orders.items()):
            if due:
                try:
                    self._orders[job] = await self._execute(client, job)
                except (Conflict, Refused, Unavailable) as error:
                    self._log.warning("order not followed", job=job, problem=str(error))
                    if isinstance(error, Unavailable) and client.state is not ConnectionState.CONNECTED:
                        raise

    async def _read_orders(self, client: Client) -> None:
        path = self._paths.node_orders(self._node)
        try:
            jobs = await client.children(path, watch=True)
        except NoNode:
            # The leader creates this znode with the node's first order: watch for its creation.
            await client.exists(path, watch=True)
            jobs = []
        self._orders_changed = False
        # Check every order again: an order for a new attempt replaces the old one under the same name.
        self._orders = {JobId(job): True for job in jobs}
        self._starts = {attempt: start for attempt, start in self._starts.items() if attempt[0] in self._orders}

    async def _execute(self, client: Client, job: JobId) -> bool:
        """Start the ordered attempt if it may start now. Return True if the order must be checked again."""
        path = self._paths.order(self._node, job)
        try:
            order = decode(Order, (await client.get(path, watch=False)).data, where=path)
            state = decode(JobState, (await client.get(self._paths.job(job, "state"))).data, where="state")
            report = (await client.get(self._paths.job(job, "report"))).data
        except NoNode:
            return False
        matches = (state.node, state.attempt) == (self._node, order.attempt) and order.job == job
        if not matches or state.phase not in (Phase.STARTING, Phase.RUNNING):
            return False
        last = decode(Report, report, where="report") if report else None
        if last is not None and last.attempt >= order.attempt:
            return False
        if any((each.job, each.attempt) == (job, order.attempt) for each in self._attempts.list_open()):
            return True  # its runner has not taken the lease yet, or is dead and not yet certified
        # A promise protects a previous attempt that may be alive. The report was read after the state, so it is about that one.
        may_be_alive = last is not None and not last.dead
        if may_be_alive and (remaining_s := self._promise_remaining_s(job, order.attempt)) > 0:
            self._log.info("order waits", job=job, attempt=order.attempt, promised_s=round(remaining_s, 1))
            return True
        await self._start(job, order.attempt, state.versions)
        return True

    async def _start(self, job: JobId, attempt: Attempt, versions: Versions) -> None:
        """Start a runner for the attempt, unless its last runner died without the lease a moment ago."""
        starts, not_before = self._starts.get((job, attempt), (0, 0.0))
        now = asyncio.get_running_loop().time()
        if starts and now < not_before:
            return
        await self._attempts.spawn(AttemptId(job, attempt, self._nonce()), versions)
        self._starts[job, attempt] = (starts + 1, now + RETRY_S * 2 ** min(starts, 4))
        self._log.info("attempt started", job=job, attempt=attempt)

    # Death certificates

    async def _certify_dead_attempts(self, client: Client) -> None:
        candidates = [each for each in self._attempts.list_open() if each not in self._certifying]
        dead = [each for each in candidates if not self._attempts.is_running(each)]
        await asyncio.gather(*(self._certify_dead(client, each) for each in dead))

    async def _certify_dead(self, client: Client, attempt_id: AttemptId) -> None:
        self._certifying.add(attempt_id)
        try:
            if not await self._attempts.kill_tree(attempt_id):
                self._log.error(
                    "processes left", job=attempt_id.job, attempt=attempt_id.attempt, problem="they survived SIGKILL"
                )
                return
            if client.state is not ConnectionState.CONNECTED:
                return
            if await self._write_certificate(client, attempt_id):
                await self._close_session(attempt_id)
            self._attempts.mark_closed(attempt_id)
            self._orders_changed = True
        except (Unavailable, OutcomeUnknown, Conflict, SessionEnded):
            pass  # the next pass tries again
        except HoldfastError as error:
            self._log.error("attempt not certified", job=attempt_id.job, attempt=attempt_id.attempt, problem=str(error))
        finally:
            self._certifying.discard(attempt_id)

    async def _write_certificate(self, client: Client, attempt_id: AttemptId) -> bool:
        """Certify in the report that the attempt is dead. Return True if its session may still hold the lease."""
        path = self._paths.job(attempt_id.job, "report")
        await client.sync(path)  # the runner may have taken the lease just before its death
        try:
            znode = await client.get(path)
        except NoNode:
            return False
        report = decode(Report, znode.data, where=path) if znode.data else None
        if report is None or (report.attempt, report.nonce) != (attempt_id.attempt, attempt_id.nonce):
            return False
        if report.dead:
            # Certified earlier, possibly by an agent that died before it closed the session.
            return await client.exists(self._paths.job(attempt_id.job, "lease")) is not None
        outcome = report.outcome or self._attempts.read_outcome(attempt_id) or Outcome(Ending.LOST, "its runner was killed")
        certificate = replace(report, outcome=outcome, dead=True)
        result = await client.commit([SetData(path, encode(certificate), znode.stat.version)])
        if not isinstance(result, Committed):
            raise result.error
        self._log.warning("attempt certified dead", job=attempt_id.job, attempt=attempt_id.attempt, reason=outcome.reason)
        return True

    async def _close_session(self, attempt_id: AttemptId) -> None:
        closed = await self._attempts.close_session(attempt_id)
        self._log.info("runner's session closed" if closed else "runner's session expires", job=attempt_id.job)
