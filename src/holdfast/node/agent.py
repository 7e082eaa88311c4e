"""Main loop of a node: register in the cluster, take part in the election, send heartbeats while leading.

The loop runs one pass at a time. Each pass reads the complete state and does everything that is due. Watches, connection
changes and timers only decide when the next pass starts. All I/O is passed to the constructor, so the simulator runs the same
code.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.clock import Clock
from holdfast.errors import Conflict, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.leader.loop import LeaderStats
from holdfast.log import Log
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.node.cluster_identity import ClusterIdentity, UnrecognizedCluster
from holdfast.node.failsafe.known_peers import KnownPeers
from holdfast.node.last_seen import LastSeen
from holdfast.node.membership import Membership
from holdfast.node.role_loops import RoleLoops
from holdfast.node.shared_settings import SharedSettings
from holdfast.wakeup import Wakeup
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.leadership.election import Election
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.leadership.write_outcome import LeadershipLost, WriteCommitted, WriteNotSent, WriteRefused, WriteUnknown
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, ClientFactory, ConnectionState, NoAuth, SessionId, Znode
from holdfast.zk.session.timing import Confirmation, SteadyContact, Timing
from holdfast.zk.session.verified_client import VerifiedClient


class UnsafeTiming(Refused):
    """The session timeout granted by the server is too short for the configured margin."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    node: NodeId
    record: NodeRecord
    paths: Paths
    timing: Timing


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """State of the node for its HTTP API. `Agent.is_leading` is separate because leadership expires by time."""

    session: SessionId | None = None
    registered: bool = False
    epoch: Epoch | None = None
    """Epoch that this node holds as leader, or None."""
    problem: str = ""


class Agent:
    PROBLEM_REPEAT_S = 5.0
    """Interval at which an ongoing problem is logged again."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        connect: ClientFactory,
        clock: Clock,
        last_seen: LastSeen,
        log: Log,
        nonce: Callable[[], str],
        on_session: Callable[[SessionId], None] = lambda _: None,
        shared_settings: SharedSettings | None = None,
        known_peers: KnownPeers | None = None,
        make_role_loops: Callable[[Callable[[], None]], RoleLoops] | None = None,
        health: Callable[[], str] = lambda: "",
        on_registered: Callable[[Client], None] = lambda _: None,
    ) -> None:
        """Without `make_role_loops` the node takes part in the election but executes no orders and manages no jobs.

        `health` returns the reason why this node cannot start attempts, or an empty string. `on_registered` is called in each
        pass in which the node is registered in its cluster.
        """
        self.settings = settings
        self._connect = connect
        self._clock = clock
        self._identity = ClusterIdentity(settings.paths, last_seen, log)
        self._log = log
        self._nonce = nonce
        self._on_session = on_session
        self._wakeup = Wakeup()
        self._shared_settings = shared_settings
        self._health = health
        self._on_registered = on_registered
        self._known_peers = known_peers
        self._role_loops = make_role_loops(self._wakeup.wake) if make_role_loops is not None else None
        self._confirmation = Confirmation(settings.timing, started_at=clock.boottime())
        self._contact = SteadyContact(settings.timing.margin_s)
        self._stopping = False
        self._problem_logged_at = float("-inf")
        self._unreachable_since = float("inf")
        self._authorized = False
        self._heartbeat_sent_at = float("-inf")
        self._leadership_confirmed = False
        self.leadership: Leadership | None = None
        self.status = NodeStatus()

    def is_leading(self) -> bool:
        """Return True while the last confirmed write is recent enough to exclude any other leader."""
        return self.leadership is not None and self._confirmation.holds(self._clock.boottime())

    @property
    def leader_stats(self) -> LeaderStats | None:
        """Job counts of the leader or of the node next in line; None on other nodes."""
        return self._role_loops.leader_stats if self._role_loops is not None else None

    def stop(self) -> None:
        self._stopping = True
        self._wakeup.wake()

    async def run(self) -> None:
        """Run until `stop` is called. Raises Refused if the settings can never work."""
        while not self._stopping:
            self._confirmation = Confirmation(self.settings.timing, started_at=self._clock.boottime())
            client = self._connect(lambda: self._on_wakeup(client))  # noqa: B023 -- the callback is only used by its own session
            try:
                await self._run_session(client)
            except SessionEnded:
                pass
            finally:
                self._lose_leadership(client.end_reason or "this node stops")
                if self._role_loops is not None:
                    await self._role_loops.end_session()
                await client.close()
                self.status = replace(self.status, session=None, registered=False)
            if not self._stopping:
                self._log.warning("session ended", reason=client.end_reason)

    def _on_wakeup(self, client: Client) -> None:
        if self._role_loops is not None:
            self._role_loops.on_watch_events(client.take_fired_paths())
        self._wakeup.wake()

    async def _run_session(self, client: Client) -> None:
        """Run passes from the connection of one session until its end."""
        paths, node = self.settings.paths, self.settings.node
        verified = VerifiedClient(client)
        membership = Membership(verified, paths, node, self.settings.record)
        election = Election(verified, paths, node, self._nonce())
        connected_before = False
        while client.state is not ConnectionState.ENDED and not self._stopping:
            if client.state is ConnectionState.CONNECTED:
                if not connected_before:
                    connected_before = True
                    self._on_connected(client)
                await self._run_pass(verified, membership, election)
            else:
                self._report_unreachable(client.connection_problem)
            self._report_unconfirmed_leadership()
            await self._wakeup.wait(self._next_pass_delay_s(client))

    def _on_connected(self, client: Client) -> None:
        problem = self.settings.timing.find_problem(client.timeout_s)
        if problem is not None:
            raise Refused(problem)
        if client.session is not None:
            self._save_session(client.session)
        self.status = replace(self.status, session=client.session)
        self._log.info("connected", session=f"0x{client.session.id & (2**64 - 1):x}" if client.session else "")

    def _save_session(self, session: SessionId) -> None:
        try:
            self._on_session(session)
        except OSError as error:
            # Consequence: if this agent crashes, the cluster waits until its session expires.
            self._log.warning("session not written", problem=f"the session file cannot be written: {error.strerror}")

    def _report_unreachable(self, connection_problem: str) -> None:
        """Report that ZooKeeper is unreachable, once the outage has lasted longer than a heartbeat interval."""
        now = self._clock.boottime()
        self._unreachable_since = min(self._unreachable_since, now)
        if now >= self._unreachable_since + self.settings.timing.heartbeat_s:
            details = f" ({connection_problem})" if connection_problem else ""
            self._report_problem(f"ZooKeeper is not reachable; still trying{details}")

    def _next_pass_delay_s(self, client: Client) -> float:
        """Return the time until the next pass: for a leader, until its next heartbeat is due; else one heartbeat interval.

        A leader whose heartbeat is overdue waits a tenth of the interval, to avoid a busy loop while heartbeats fail.
        """
        heartbeat_s = self.settings.timing.heartbeat_s
        if self.leadership is None or client.state is not ConnectionState.CONNECTED:
            return heartbeat_s
        due_s = self._heartbeat_sent_at + heartbeat_s - self._clock.boottime()
        return min(heartbeat_s, due_s + 0.001) if due_s > 0 else heartbeat_s / 10

    async def _run_pass(self, client: VerifiedClient, membership: Membership, election: Election) -> None:
        try:
            await self._join_and_lead(client, membership, election)
        except (Unavailable, OutcomeUnknown):
            self._report_unreachable(client.connection_problem)
        except (UnrecognizedCluster, UnsafeTiming) as error:
            self._lose_leadership(str(error))
            self._report_problem(str(error))
            await self._leave_election(client.unverified, election)
        except NoAuth as error:
            if not self._authorized:
                raise  # a wrong password stays wrong, so retrying is pointless
            self._report_problem(str(error))
        except (Conflict, Refused) as error:
            self._identity.invalidate()
            self.status = replace(self.status, registered=False)
            self._report_problem(str(error))
        else:
            self._unreachable_since = float("inf")
            self._authorized = True
            if self.status.problem:
                self._log.info("problem over", problem=self.status.problem)
                self.status = replace(self.status, problem="")

    async def _leave_election(self, client: Client, election: Election) -> None:
        """Leave the election, because this node cannot lead and would block the nodes behind it."""
        with contextlib.suppress(Unavailable, OutcomeUnknown, Conflict, Refused):
            await election.leave(client)

    async def _join_and_lead(self, client: VerifiedClient, membership: Membership, election: Election) -> None:
        epoch = await self._register(client, membership)
        self._on_registered(client)
        contender = await election.join()
        if await election.is_first(contender):
            await self._lead(client, election, contender, epoch)
            return
        self._lose_leadership("another node is ahead of this node in the election")
        if self._role_loops is not None and election.contenders_ahead == 1:
            self._role_loops.start_standby()

    async def _register(self, client: VerifiedClient, membership: Membership) -> Znode:
        """Verify the cluster and register this node in it. Return the epoch znode.

        Until the cluster is verified on the current connection, the client refuses the calls of all role loops.
        """
        if (problem := self.settings.timing.find_problem(client.timeout_s)) is not None:
            raise UnsafeTiming(problem)  # a reconnection may grant another timeout than the first connection
        read_sent_at, was_verified = self._clock.boottime(), client.is_verified
        epoch = await self._identity.read_verified_epoch(client)
        self._confirmation.record_contact(sent_at=read_sent_at, answered_at=self._clock.boottime())
        self._contact.record(self._clock.boottime())
        if self._role_loops is not None and not was_verified:
            self._role_loops.on_verified(client)
        if self._shared_settings is not None:
            await self._shared_settings.load(client)
        await membership.ensure_registered(self._health())
        if not self.status.registered:
            self.status = replace(self.status, registered=True)
            self._log.info("registered")
        if self._known_peers is not None:
            await self._known_peers.refresh(client)
        return epoch

    async def _lead(self, client: Client, election: Election, contender: str, epoch: Znode) -> None:
        """Take the next epoch if necessary, send the heartbeat if it is due, and run the leader's loop."""
        for problem in election.queue_problems:
            self._log.warning("election obstructed", problem=problem)
        if self.leadership is not None and self.leadership.epoch != epoch.stat.version:
            self._lose_leadership(f"epoch {self.leadership.epoch} is over: a later one has begun")
        if self.leadership is not None and self.leadership.contender != contender:
            self._lose_leadership("the election entry of this node was deleted")
        if self.leadership is None:
            await self._take_epoch(election, contender, epoch)
        if self.leadership is not None:
            await self._send_heartbeat_if_due(client, self.leadership)
        self._start_leading()

    def _start_leading(self) -> None:
        role_loops = self._role_loops
        if role_loops is None or self.leadership is None:
            return
        if role_loops.lost_reason is not None:
            self._lose_leadership(role_loops.lost_reason)
            self._wakeup.wake()
        elif self._leadership_confirmed:
            role_loops.start_leading(self.leadership, self._contact)

    async def _take_epoch(self, election: Election, contender: str, epoch: Znode) -> None:
        self._confirmation.invalidate()
        self._heartbeat_sent_at = float("-inf")
        self.leadership = await election.take_epoch(contender, epoch)
        if self.leadership is None:
            self._wakeup.wake()  # the epoch changed after it was read: run the next pass at once
            return
        self.status = replace(self.status, epoch=self.leadership.epoch)
        self._log.info("leadership won", epoch=self.leadership.epoch)

    async def _send_heartbeat_if_due(self, client: Client, leadership: Leadership) -> None:
        sent_at = self._clock.boottime()
        if sent_at < self._heartbeat_sent_at + self.settings.timing.heartbeat_s:
            return
        self._heartbeat_sent_at = sent_at
        match await leadership.send_heartbeat(wall_s=self._clock.wall()):
            case WriteCommitted():
                self._confirm_leadership(sent_at, client.timeout_s)
            case LeadershipLost(reason):
                self._lose_leadership(reason)
                self._wakeup.wake()
            case WriteNotSent(reason):
                raise Unavailable(reason)
            case WriteUnknown(reason):
                raise OutcomeUnknown(reason)
            case outcomes.WriteConflict(_, reason):
                raise Conflict(reason)
            case WriteRefused(reason):
                raise Refused(reason)

    def _confirm_leadership(self, sent_at: float, timeout_s: float) -> None:
        self._confirmation.confirm(sent_at=sent_at, answered_at=self._clock.boottime(), timeout_s=timeout_s)
        if not self._leadership_confirmed and self.is_leading() and self.leadership is not None:
            self._leadership_confirmed = True
            self._log.info("leading", epoch=self.leadership.epoch)

    def _report_unconfirmed_leadership(self) -> None:
        """Log once that the deadline has passed. The node keeps its epoch until another node takes the next one."""
        if self._leadership_confirmed and not self.is_leading():
            self._leadership_confirmed = False
            self._log.warning("leadership unconfirmed", epoch=self.leadership.epoch if self.leadership else None)

    def _lose_leadership(self, reason: str) -> None:
        if self.leadership is not None:
            self._log.warning("leadership lost", epoch=self.leadership.epoch, reason=reason)
            self.leadership = None
            self._leadership_confirmed = False
            if self._role_loops is not None:
                self._role_loops.stop_leading()
            self.status = replace(self.status, epoch=None)

    def _report_problem(self, problem: str) -> None:
        now = self._clock.boottime()
        if problem != self.status.problem or now >= self._problem_logged_at + self.PROBLEM_REPEAT_S:
            self._problem_logged_at = now
            self._log.warning("problem", problem=problem)
        self.status = replace(self.status, problem=problem)
