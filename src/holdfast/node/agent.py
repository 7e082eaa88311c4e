"""What a node does in its cluster: it joins, stands for leader, and beats while it leads.

One loop, one pass at a time. A pass looks at the whole and does what is due; watches, changes of the connection and the clock
only decide when the next one happens. The same code runs in the simulator: everything that is not computing comes in through
the constructor.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.clock import Clock
from holdfast.errors import Conflict, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.leader.loop import Work
from holdfast.log import Log
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import NewerSchema
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.node.cluster_identity import Recognition, Unrecognized
from holdfast.node.last_seen import Memory
from holdfast.node.membership import Membership
from holdfast.node.role_loops import Duties
from holdfast.node.shared_settings import Commons
from holdfast.wakeup import Alarm
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.leadership.election import Election
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.leadership.write_outcome import Done, Final, LeadershipLost, Unknown, Unsent
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Connect, NoAuth, SessionId, State, Znode
from holdfast.zk.session.timing import Confirmation, Timing


class Unsafe(Refused):
    """With the session timeout that the server grants now, no deadline can be trusted."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    node: NodeId
    record: NodeRecord
    paths: Paths
    timing: Timing


@dataclass(frozen=True, slots=True)
class Status:
    """What the node says about itself. Whether it leads is asked of `Agent.leading`, because that runs out by itself."""

    session: SessionId | None = None
    registered: bool = False
    epoch: Epoch | None = None
    """The epoch that this node won, while it has not lost it."""
    problem: str = ""


class Agent:
    PERSIST_S = 5.0
    """How often a lasting problem is said again."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        connect: Connect,
        clock: Clock,
        memory: Memory,
        log: Log,
        nonce: Callable[[], str],
        on_session: Callable[[SessionId], None] = lambda _: None,
        commons: Commons | None = None,
        make_duties: Callable[[Callable[[], None]], Duties] | None = None,
    ) -> None:
        """Without duties the node only stands for leader."""
        self.settings = settings
        self._connect = connect
        self._clock = clock
        self._recognition = Recognition(settings.paths, memory, log)
        self._log = log
        self._nonce = nonce
        self._on_session = on_session
        self._alarm = Alarm()
        self._commons = commons
        self._duties = make_duties(self._alarm.ring) if make_duties is not None else None
        self._confirmation = Confirmation(settings.timing, began_at=clock.boottime())
        self._stopping = False
        self._said_at = float("-inf")
        self._away_since = float("inf")
        self._admitted = False
        self._beat_sent_at = float("-inf")
        self._claimed = False
        self.reign: Reign | None = None
        self.status = Status()

    def leading(self) -> bool:
        """Whether this node leads and knows it: its last confirmed write is recent enough to exclude any other leader."""
        return self.reign is not None and self._confirmation.holds(self._clock.boottime())

    @property
    def work(self) -> Work | None:
        """What the leader has to do, while this node leads or is next in line."""
        return self._duties.work if self._duties is not None else None

    def stop(self) -> None:
        self._stopping = True
        self._alarm.ring()

    async def run(self) -> None:
        """Until stopped. Raises Refused, with a sentence, if the settings can never work."""
        while not self._stopping:
            self._confirmation = Confirmation(self.settings.timing, began_at=self._clock.boottime())
            client = self._connect(lambda: self._woken(client))  # noqa: B023 -- it is only woken for its own session
            try:
                await self._live(client)
            except SessionEnded:
                pass
            finally:
                self._lose_reign(client.ended_because or "this node stops")
                if self._duties is not None:
                    await self._duties.end()
                await client.close()
                self.status = replace(self.status, session=None, registered=False)
            if not self._stopping:
                self._log.warning("session ended", reason=client.ended_because)

    def _woken(self, client: Client) -> None:
        if self._duties is not None:
            self._duties.woken(client.take_fired())
        self._alarm.ring()

    async def _live(self, client: Client) -> None:
        """One session, from connecting to its end."""
        paths, node = self.settings.paths, self.settings.node
        membership = Membership(client, paths, node, self.settings.record)
        election = Election(client, paths, node, self._nonce())
        introduced = False
        while client.state is not State.ENDED and not self._stopping:
            if client.state is State.CONNECTED:
                if not introduced:
                    introduced = True
                    self._introduce(client)
                    if self._duties is not None:
                        self._duties.begin(client)
                await self._guarded_pass(client, membership, election)
            else:
                self._notice_absence(client.trouble)
            self._notice_doubt()
            await self._alarm.wait(self._pause_s(client))

    def _introduce(self, client: Client) -> None:
        objection = self.settings.timing.objection(client.timeout_s)
        if objection is not None:
            raise Refused(objection)
        if client.session is not None:
            self._tell_session(client.session)
        self.status = replace(self.status, session=client.session)
        self._log.info("connected", session=f"0x{client.session.id & (2**64 - 1):x}" if client.session else "")

    def _tell_session(self, session: SessionId) -> None:
        try:
            self._on_session(session)
        except OSError as error:
            # Should this agent crash now, its session has to expire by itself.
            self._log.warning("session not written", problem=f"the session file cannot be written: {error.strerror}")

    def _notice_absence(self, trouble: str) -> None:
        """A connection that is lost for a moment is nobody's problem."""
        now = self._clock.boottime()
        self._away_since = min(self._away_since, now)
        if now >= self._away_since + self.settings.timing.heartbeat_s:
            because = f" ({trouble})" if trouble else ""
            self._say(f"ZooKeeper is not reachable; still trying{because}")

    def _pause_s(self, client: Client) -> float:
        """Until the next pass is due: a heartbeat after the last beat was sent, or after now for a node that does not lead.

        What kept the last beat from being sent will not be over in no time: a leader that cannot beat does not spin."""
        heartbeat_s = self.settings.timing.heartbeat_s
        if self.reign is None or client.state is not State.CONNECTED:
            return heartbeat_s
        due_s = self._beat_sent_at + heartbeat_s - self._clock.boottime()
        return min(heartbeat_s, due_s + 0.001) if due_s > 0 else heartbeat_s / 10

    async def _guarded_pass(self, client: Client, membership: Membership, election: Election) -> None:
        try:
            await self._pass(client, membership, election)
        except (Unavailable, OutcomeUnknown):
            self._notice_absence(client.trouble)
        except (NewerSchema, Unrecognized, Unsafe) as error:
            self._lose_reign(str(error))
            self._say(str(error))
            await self._stand_aside(election)
        except NoAuth as error:
            if not self._admitted:
                raise  # a wrong password does not become right by waiting
            self._say(str(error))
        except (Conflict, Refused) as error:
            self._recognition.doubt()
            self.status = replace(self.status, registered=False)
            self._say(str(error))
        else:
            self._away_since = float("inf")
            self._admitted = True
            if self.status.problem:
                self._log.info("problem over", problem=self.status.problem)
            self.status = replace(self.status, problem="")

    async def _stand_aside(self, election: Election) -> None:
        """Whoever cannot lead must not keep the others from it."""
        with contextlib.suppress(Unavailable, OutcomeUnknown, Conflict, Refused):
            await election.withdraw()

    async def _pass(self, client: Client, membership: Membership, election: Election) -> None:
        if (objection := self.settings.timing.objection(client.timeout_s)) is not None:
            raise Unsafe(objection)  # a reconnection may grant another timeout than the first one did
        looked_at = self._clock.boottime()
        epoch = await self._recognition.epoch(client)
        self._confirmation.heard(sent_at=looked_at, answered_at=self._clock.boottime())
        if self._commons is not None:
            await self._commons.agree(client)
        await membership.hold()
        if not self.status.registered:
            self.status = replace(self.status, registered=True)
            self._log.info("registered")
        if self._duties is not None and self._duties.objection is not None:
            raise self._duties.objection  # to stand all the same would only use up epochs
        mine = await election.stand()
        if not await election.first(mine):
            self._lose_reign("another node stands before this one")
            if self._duties is not None and election.ahead == 1:
                self._duties.stand_by()
            return
        for obstacle in election.obstacles:
            self._log.warning("election obstructed", problem=obstacle)
        if self.reign is not None and self.reign.epoch != epoch.stat.version:
            self._lose_reign(f"epoch {self.reign.epoch} is over: a later one has begun")
        if self.reign is not None and self.reign.contender != mine:
            self._lose_reign("somebody removed this node from the election")
        if self.reign is None:
            await self._ascend(election, mine, epoch)
        if self.reign is not None:
            await self._beat_if_due(client, self.reign)
        self._take_up_duties()

    def _take_up_duties(self) -> None:
        duties = self._duties
        if duties is None or self.reign is None:
            return
        if duties.lost is not None:
            self._lose_reign(duties.lost)
            self._alarm.ring()
        elif self._claimed:
            duties.lead(self.reign)

    async def _ascend(self, election: Election, mine: str, epoch: Znode) -> None:
        self._confirmation.lapse()
        self._beat_sent_at = float("-inf")
        self.reign = await election.ascend(mine, epoch)
        if self.reign is None:
            self._alarm.ring()  # the epoch has changed since it was read: look again at once
            return
        self.status = replace(self.status, epoch=self.reign.epoch)
        self._log.info("leadership won", epoch=self.reign.epoch)

    async def _beat_if_due(self, client: Client, reign: Reign) -> None:
        sent_at = self._clock.boottime()
        if sent_at < self._beat_sent_at + self.settings.timing.heartbeat_s:
            return
        self._beat_sent_at = sent_at
        match await reign.beat(wall_s=self._clock.wall()):
            case Done():
                self._confirm(sent_at, client.timeout_s)
            case LeadershipLost(reason):
                self._lose_reign(reason)
                self._alarm.ring()
            case Unsent(reason):
                raise Unavailable(reason)
            case Unknown(reason):
                raise OutcomeUnknown(reason)
            case outcomes.Conflict(_, reason):
                raise Conflict(reason)
            case Final(reason):
                raise Refused(reason)

    def _confirm(self, sent_at: float, timeout_s: float) -> None:
        self._confirmation.confirm(sent_at=sent_at, answered_at=self._clock.boottime(), timeout_s=timeout_s)
        if not self._claimed and self.leading() and self.reign is not None:
            self._claimed = True
            self._log.info("leading", epoch=self.reign.epoch)

    def _notice_doubt(self) -> None:
        """Past the deadline nobody may be told that this node leads. The epoch stays ours until somebody takes the next."""
        if self._claimed and not self.leading():
            self._claimed = False
            self._log.warning("leadership unconfirmed", epoch=self.reign.epoch if self.reign else None)

    def _lose_reign(self, reason: str) -> None:
        if self.reign is not None:
            self._log.warning("leadership lost", epoch=self.reign.epoch, reason=reason)
            self.reign = None
            self._claimed = False
            if self._duties is not None:
                self._duties.depose()
            self.status = replace(self.status, epoch=None)

    def _say(self, problem: str) -> None:
        now = self._clock.boottime()
        if problem != self.status.problem or now >= self._said_at + self.PERSIST_S:
            self._said_at = now
            self._log.warning("problem", problem=problem)
        self.status = replace(self.status, problem=problem)
