"""ZooKeeper session of a runner, and the lease that it holds. A new session can replace an ended one."""

import asyncio
from collections.abc import Callable, Iterable

from holdfast.clock import Clock
from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import MalformedRecord, NewerSchema
from holdfast.model.job import Outcome, Progress
from holdfast.runner.failsafe_nodes import FailsafeNodes
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, LeaseLost, LeaseRefused, TakenLease
from holdfast.wakeup import Wakeup
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, ClientFactory, ConnectionState
from holdfast.zk.session.timing import Confirmation, Timing


class LeaseSession:
    """Client, lease and confirmations of one runner.

    `reopen` replaces the client of an ended session. Confirmations and watches of the ended session do not count for the new
    one. The lease is not held until `retake` succeeds.
    """

    def __init__(
        self,
        assignment: AttemptAssignment,
        paths: Paths,
        *,
        connect: ClientFactory,
        clock: Clock,
        timing: Timing,
        wakeup: Wakeup,
        log: Log,
        schema: Callable[[], int],
        holder_class: type[LeaseHolder] = LeaseHolder,
    ) -> None:
        """Open the first session. It is connected later, when `state` says so. `schema` is that of the next record."""
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._wakeup = wakeup
        self._log = log
        self._last_timeout_s = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self.fired_watches: set[str] = set()
        """Paths of watches that have fired and were not handled yet."""
        self.holds_lease = False
        """True from taking the lease until the session has ended."""
        self.heartbeat_sent_at = float("-inf")
        self._open()
        self.holder = holder_class(self.client, paths, assignment, schema=schema)

    def _open(self) -> None:
        self.opened_at = self._clock.boottime()
        # Begin before the session exists: its creation counts as a contact.
        self.confirmation = Confirmation(self._timing, started_at=self.opened_at)
        self.fired_watches = {ANY_PATH}
        self.client: Client = self._connect(self._handle_watch)

    def _handle_watch(self) -> None:
        self.fired_watches |= self.client.take_fired_paths()
        self._wakeup.wake()

    @property
    def state(self) -> ConnectionState:
        return self.client.state

    @property
    def timeout_s(self) -> float:
        """Session timeout in seconds, as granted by the server; of the previous session while a new one is connecting."""
        return self.client.timeout_s or self._last_timeout_s

    def confirm(self, sent_at: float) -> None:
        """Count a committed, version-checked write of this session as a confirmation."""
        self.confirmation.confirm(sent_at=sent_at, answered_at=self._clock.boottime(), timeout_s=self.client.timeout_s)
        self.heartbeat_sent_at = sent_at

    def take_fired(self) -> set[str]:
        """Return and clear the fired watches."""
        fired, self.fired_watches = self.fired_watches, set()
        return fired

    def pause_s(self) -> float:
        """Return the time until the next heartbeat is due. Without a connection there is no heartbeat to send."""
        heartbeat_s = self._timing.heartbeat_s
        if self.state is not ConnectionState.CONNECTED:
            return heartbeat_s
        if not self.holds_lease:
            return heartbeat_s / 2
        due_s = self.heartbeat_sent_at + heartbeat_s - self._clock.boottime()
        return min(heartbeat_s, due_s + 0.001) if due_s > 0 else heartbeat_s / 10

    # Taking the lease

    async def take(self, nodes: FailsafeNodes, *, timeout_s: float) -> TakenLease | None:
        """Take the lease. Return None if it is refused or cannot be taken within the time limit.

        `heartbeat_sent_at` is then the send time of the transaction.
        """
        await self._wait_for_connection(timeout_s)
        give_up_at = self._clock.boottime() + timeout_s
        while self._clock.boottime() < give_up_at and self.state is not ConnectionState.ENDED:
            if problem := self._timing.find_problem(self.client.timeout_s):
                self._log.error("lease not taken", problem=problem)
                return None
            try:
                await nodes.refresh(self.client)
                sent_at = self._clock.boottime()
                taken = await self.holder.take(started_at=self._clock.wall(), failsafe=nodes.names)
            except (Unavailable, OutcomeUnknown, SessionEnded) as error:
                self._log.warning("lease not taken yet", problem=str(error))
                await self._wakeup.wait(self._timing.heartbeat_s)
            except (LeaseRefused, MalformedRecord, NewerSchema, Refused) as error:
                self._log.warning("lease not taken", problem=str(error))
                return None
            else:
                self._log.info("lease taken")
                self.holds_lease, self.heartbeat_sent_at = True, sent_at
                return taken
        return None

    async def _wait_for_connection(self, timeout_s: float) -> None:
        give_up_at = self._clock.boottime() + timeout_s
        while self.state is ConnectionState.CONNECTING and self._clock.boottime() < give_up_at:
            await self._wakeup.wait(self._timing.heartbeat_s)

    # Taking the lease again

    def reopen(self) -> bool:
        """Open a new session after the end of the last one. Return False if the last one was opened a heartbeat ago or less."""
        if self._clock.boottime() < self.opened_at + self._timing.heartbeat_s:
            return False
        self.holds_lease = False
        self._last_timeout_s = self.timeout_s
        task = asyncio.ensure_future(self.client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._open()
        return True

    async def retake(self) -> bool:
        """Take the lease of the same attempt again. Return False if that is not possible yet.

        Raises LeaseLost, and the errors of the client. The next heartbeat confirms the lease.
        """
        if problem := self._timing.find_problem(self.client.timeout_s):
            raise LeaseLost(problem)
        if not await self.holder.retake(self.client):
            return False
        self.holds_lease, self.heartbeat_sent_at = True, float("-inf")
        return True

    # Releasing the lease

    async def release(
        self, outcome: Outcome, progress: Progress | None, *, proven: bool, checkpoint: str, timeout_s: float
    ) -> None:
        """Release the lease with the outcome. Give up when the lease is lost or after the timeout; then the node reports it."""
        give_up_at = self._clock.boottime() + timeout_s
        while self.holds_lease and self.state is not ConnectionState.ENDED and self._clock.boottime() < give_up_at:
            try:
                await self.holder.release(outcome, progress, proven=proven, checkpoint=checkpoint)
            except (Unavailable, OutcomeUnknown):
                await self._wakeup.wait(self._timing.heartbeat_s)
            except HoldfastError as error:
                self._log.warning("lease not released", problem=str(error))
                return
            else:
                self._log.info("lease released", ending=outcome.ending, reason=outcome.reason)
                return

    async def close(self) -> None:
        await self.client.close()
        await asyncio.gather(*self._closing)


def includes(fired: Iterable[str], path: str) -> bool:
    """Return True if a watch on the path has fired, or may have fired."""
    return any(each in (ANY_PATH, path) for each in fired)
