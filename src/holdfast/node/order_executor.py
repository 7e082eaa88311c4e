"""What a node does for the leader: it starts the attempts that it is ordered to, and buries those whose runner is dead.

An order is only an index of a job's state. One that does not match the state starts nothing, and neither does one for an
attempt that has run already, or that the node has promised not to start yet.

A dead runner is buried in this order: every process of its driver is gone, the report certifies it, its session is closed. So
nobody has to wait for the session to expire, and nobody starts anything before the last process is dead.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from holdfast.errors import Conflict, HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Order, Outcome, Report, State
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptName
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, Committed, NoNode, SetData
from holdfast.zk.session.client import State as Connection


class Workshop(Protocol):
    """The attempts of this node; `node.attempts.Attempts` is the real one."""

    def present(self) -> list[AttemptName]: ...
    def running(self, name: AttemptName) -> bool: ...
    async def spawn(self, name: AttemptName, versions: Versions) -> None: ...
    async def end_tree(self, name: AttemptName) -> bool: ...
    def left_behind(self, name: AttemptName) -> Outcome | None: ...
    async def close_session(self, name: AttemptName) -> bool: ...
    def bury(self, name: AttemptName) -> None: ...


AGAIN_S = 1.0
"""Before the same attempt is started once more; twice as long after each time."""

LeftS = Callable[[JobId, Attempt], float]
"""How long an attempt must not be started yet."""


class Hands:
    def __init__(
        self, paths: Paths, node: NodeId, *, workshop: Workshop, promised_s: LeftS, nonce: Callable[[], str], log: Log
    ) -> None:
        self._paths = paths
        self._node = node
        self._workshop = workshop
        self._promised_s = promised_s
        self._nonce = nonce
        self._log = log
        self._orders: dict[JobId, bool] = {}
        """Whether there is still something to do about each."""
        self._look_again = True
        self._started: dict[tuple[JobId, Attempt], tuple[int, float]] = {}
        """How often each attempt was started here, and when the next time may be, for those that never reach the lease."""
        self._burying: set[AttemptName] = set()

    def fired(self, paths: Iterable[str]) -> None:
        mine = self._paths.orders_of(self._node)
        if any(path in (ANY_PATH, mine) for path in paths):
            self._look_again = True

    async def one_pass(self, client: Client) -> None:
        await self._bury_the_dead(client)
        if client.state is Connection.CONNECTED:
            await self._follow_orders(client)

    # Orders

    async def _follow_orders(self, client: Client) -> None:
        if self._look_again:
            try:
                jobs = await client.children(self._paths.orders_of(self._node), watch=True)
            except NoNode:
                # The leader makes the place with the first order; until then its appearance is what to wait for.
                await client.exists(self._paths.orders_of(self._node), watch=True)
                jobs = []
            self._look_again = False
            # A new attempt may have the old one's place in the list: everything is looked at once more.
            self._orders = {JobId(job): True for job in jobs}
            self._started = {name: often for name, often in self._started.items() if name[0] in self._orders}
        for job, due in sorted(self._orders.items()):
            if due:
                try:
                    self._orders[job] = await self._follow(client, job)
                except (Conflict, Refused, Unavailable) as error:
                    self._log.warning("order not followed", job=job, problem=str(error))
                    if isinstance(error, Unavailable) and client.state is not Connection.CONNECTED:
                        raise

    async def _follow(self, client: Client, job: JobId) -> bool:
        """Whether to look at this order again."""
        path = self._paths.order(self._node, job)
        try:
            order = decode(Order, (await client.get(path, watch=False)).data, where=path)
            state = decode(State, (await client.get(self._paths.job(job, "state"))).data, where="state")
            report = (await client.get(self._paths.job(job, "report"))).data
        except NoNode:
            return False
        matches = (state.node, state.attempt) == (self._node, order.attempt) and order.job == job
        if not matches or state.phase not in (Phase.STARTING, Phase.RUNNING):
            return False
        last = decode(Report, report, where="report") if report else None
        if last is not None and last.attempt >= order.attempt:
            return False
        if any((name.job, name.attempt) == (job, order.attempt) for name in self._workshop.present()):
            return True  # it is on its way to the lease, or dead and about to be buried
        # A promise is about an attempt that may be alive. The report was read after the state, so it tells of the last one.
        uncertain = last is not None and not last.dead
        if uncertain and (left_s := self._promised_s(job, order.attempt)) > 0:
            self._log.info("order waits", job=job, attempt=order.attempt, promised_s=round(left_s, 1))
            return True
        times, not_before = self._started.get((job, order.attempt), (0, 0.0))
        now = asyncio.get_running_loop().time()
        if times and now < not_before:
            return True  # the last runner of it has ended before it had the lease, and the next one would fare no better
        await self._workshop.spawn(AttemptName(job, order.attempt, self._nonce()), state.versions)
        self._started[job, order.attempt] = (times + 1, now + AGAIN_S * 2 ** min(times, 4))
        self._log.info("attempt started", job=job, attempt=order.attempt)
        return True

    # Burials

    async def _bury_the_dead(self, client: Client) -> None:
        dead = [name for name in self._workshop.present() if name not in self._burying and not self._workshop.running(name)]
        await asyncio.gather(*(self._bury(client, name) for name in dead))

    async def _bury(self, client: Client, name: AttemptName) -> None:
        self._burying.add(name)
        try:
            if not await self._workshop.end_tree(name):
                self._log.error("processes left", job=name.job, attempt=name.attempt, problem="they cannot be killed")
                return
            if client.state is not Connection.CONNECTED:
                return
            certified = await self._certify(client, name)
            self._workshop.bury(name) if not certified else await self._close(name)
            self._look_again = True
        except (Unavailable, OutcomeUnknown, Conflict, SessionEnded):
            pass  # the next pass looks again
        except HoldfastError as error:
            self._log.error("not buried", job=name.job, attempt=name.attempt, problem=str(error))
        finally:
            self._burying.discard(name)

    async def _certify(self, client: Client, name: AttemptName) -> bool:
        """Whether there is a lease left to be closed."""
        path = self._paths.job(name.job, "report")
        await client.sync(path)  # the lease may have been the last thing that the runner took
        try:
            znode = await client.get(path)
        except NoNode:
            return False
        report = decode(Report, znode.data, where=path) if znode.data else None
        if report is None or (report.attempt, report.nonce) != (name.attempt, name.nonce):
            return False
        if report.dead:
            # Certified before; but whoever did that may have died before the session was closed.
            return await client.exists(self._paths.job(name.job, "lease")) is not None
        outcome = report.outcome or self._workshop.left_behind(name) or Outcome(Ending.LOST, "its runner was killed")
        certificate = replace(report, outcome=outcome, dead=True)
        result = await client.commit([SetData(path, encode(certificate), znode.stat.version)])
        if not isinstance(result, Committed):
            raise result.error
        self._log.warning("attempt certified dead", job=name.job, attempt=name.attempt, reason=outcome.reason)
        return True

    async def _close(self, name: AttemptName) -> None:
        closed = await self._workshop.close_session(name)
        self._log.info("runner's session closed" if closed else "runner's session expires", job=name.job)
        self._workshop.bury(name)
