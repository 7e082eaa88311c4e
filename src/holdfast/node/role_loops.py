"""What a node does besides standing for leader: it follows orders, and it leads while it may.

Each in a loop of its own, so that neither a thousand jobs to be read nor a process that takes long to die keeps the node from
confirming that it leads.
"""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.errors import Conflict, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.leader.loop import Leader, Work
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.model.codec import NewerSchema
from holdfast.node.order_executor import Hands
from holdfast.wakeup import Alarm
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.session.client import Client, State

MakeLeader = Callable[[Client, Reign], Leader]
MakeObserver = Callable[[Client], Observer]
PERSIST_S = 5.0


class Duties:
    """For one session after the other."""

    def __init__(
        self,
        *,
        hands: Hands,
        make_leader: MakeLeader,
        pause_s: float,
        ring: Callable[[], None],
        log: Log,
        make_observer: MakeObserver | None = None,
    ) -> None:
        """`ring` is called when the node has to look at what became of its reign.

        With `make_observer`, a node that is next in line follows what happens, and knows every job when its turn comes.
        """
        self._hands = hands
        self._make_leader = make_leader
        self._make_observer = make_observer
        self._pause_s = pause_s
        self._ring = ring
        self._log = log
        self._client: Client | None = None
        self._following: asyncio.Task[None] | None = None
        self._ruling: asyncio.Task[None] | None = None
        self._leader: Leader | None = None
        self._observer: Observer | None = None
        self._hands_alarm = Alarm()
        self._leader_alarm = Alarm()
        self.objection: NewerSchema | None = None
        """Why this node must not lead: something was written by a later version."""

    def begin(self, client: Client) -> None:
        """A session has begun."""
        self._client = client
        self.objection = None
        self._hands.fired([""])
        self._following = asyncio.ensure_future(self._follow(client))

    async def end(self) -> None:
        self.depose()
        tasks = [task for task in (self._following, self._ruling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._following = self._ruling = self._client = self._observer = None

    def woken(self, fired: set[str]) -> None:
        """Watches have fired, or the connection has changed."""
        self._hands.fired(fired)
        self._hands_alarm.ring()
        if self._observer is not None:
            self._observer.fired(fired)
            self._leader_alarm.ring()

    def a_runner_died(self) -> None:
        self._hands_alarm.ring()

    # Leading

    def lead(self, reign: Reign) -> None:
        """Begin, unless it is this reign that we lead already."""
        if self._leader is not None or self._client is None:
            return
        self._leader = self._make_leader(self._client, reign)
        if self._observer is None:
            self._observer = self._leader.observer
        else:
            self._leader.take_over(self._observer)
        self._rule(self._client)

    def stand_by(self) -> None:
        """This node is next in line."""
        if self._observer is None and self._client is not None and self._make_observer is not None:
            self._observer = self._make_observer(self._client)
            self._rule(self._client)

    def _rule(self, client: Client) -> None:
        if self._ruling is None:
            self._ruling = asyncio.ensure_future(self._loop(client, self._leader_alarm, self._rule_once))
        self._leader_alarm.ring()

    @property
    def lost(self) -> str | None:
        """Why the reign is over, if the leader was told."""
        return self._leader.lost if self._leader is not None else None

    @property
    def work(self) -> Work | None:
        """Of the leader, or of the one that is next in line; None for the others."""
        if self._leader is not None:
            return self._leader.work
        return Work(*self._observer.count()) if self._observer is not None else None

    def depose(self) -> None:
        """A pass that is under way goes on; what it writes is fenced."""
        self._leader = None

    async def _rule_once(self) -> bool:
        if (leader := self._leader) is None:
            if self._observer is not None:
                await self._observer.look()
                self.objection = None  # everything can be read
            return False
        done = await leader.one_pass()
        if leader.lost is not None:
            self._ring()
        return done > 0 and leader.lost is None

    async def _follow(self, client: Client) -> None:
        async def one_pass() -> bool:
            await self._hands.one_pass(client)
            return False

        await self._loop(client, self._hands_alarm, one_pass)

    async def _loop(self, client: Client, alarm: Alarm, one_pass: Callable[[], Awaitable[bool]]) -> None:
        """Passes, as soon as something changed and now and then anyway, until the session or the task ends."""
        said = ""
        while client.state is not State.ENDED:
            again = False
            try:
                again = await one_pass()
                said = ""
            except SessionEnded:
                return
            except (Unavailable, OutcomeUnknown):
                pass
            except NewerSchema as error:
                self.objection = error
                self._ring()
            except (Conflict, Refused) as error:
                if str(error) != said:
                    self._log.warning("problem", problem=str(error))
                said = str(error)
            except Exception as error:  # noqa: BLE001 -- a mistake of ours about one thing must not end all others
                self._log.error("mistake", problem=f"{type(error).__name__}: {error}", exc_info=True)
            if not again:
                await alarm.wait(self._pause_s)
