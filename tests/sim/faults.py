"""What goes wrong in a schedule: at random moments, and at the very moments when an epoch or a session changes hands."""

import random
from collections.abc import Callable, Sequence

from tests.sim.nodes import PATHS, SimNode
from tests.sim.oracles import Oracles, writes
from tests.sim.world import World
from tests.sim.zk.request import Kind, Transaction

Undo = Callable[[], None]


class Faults:
    def __init__(self, world: World, nodes: Sequence[SimNode], oracles: Oracles, rng: random.Random) -> None:
        self._world = world
        self._zk = world.zk
        self._nodes = nodes
        self._oracles = oracles
        self._random = rng
        self._by_process = {node.process: node for node in nodes}
        self._over = False
        self.names: list[str] = []

    # Which

    def random_one(self, at_s: float, until_s: float) -> None:
        fault = self._random.choice(
            [
                self._kill_server,
                self._pause_server,
                self._cut_follower,
                self._change_leader,
                self._stall,
                self._pause_node,
                self._pause_node,
                self._hang_node,
                self._crash_node,
                self._lose_node,
                self._cut_links,
                self._lose_replies,
                self._delay_replies,
                self._depose,
                self._scribble_on_the_epoch,
            ]
        )
        self._world.at(at_s, self._start, fault, min(at_s + self._random.uniform(0.05, 14.0), until_s))

    def aimed_one(self) -> None:
        aim = self._random.choice(
            [
                self._at_the_ascent,
                self._at_the_ascent,
                self._at_a_beat,
                self._at_the_end_of_a_session,
                self._at_the_joining,
                self._lonely_follower,
                self._late_reply,
                self._late_look,
                self._stale_beat,
                self._everyone_expires,
                self._back_at_the_last_moment,
                self._back_at_the_last_moment,
            ]
        )
        self.names.append(aim.__name__)
        aim()

    def heal_all(self) -> None:
        """From here on nothing goes wrong any more, whatever was still aimed."""
        self._over = True
        for server in self._zk.servers:
            self._zk.resume(server.index)
            self._zk.heal(server.index)
            self._zk.restart(server.index)
        for node in self._nodes:
            if node.agent is not None:
                self._world.resume(node.process)
            elif node.lost:
                node.start()
            self._zk.network.heal(node.name)

    def _start(self, fault: Callable[[], Undo | None], until_s: float) -> None:
        if self._over:
            return
        self.names.append(fault.__name__)
        undo = fault()
        if undo is not None:
            self._world.at(max(until_s, self._world.now_s), undo)

    def _node(self) -> SimNode:
        """Mostly the leader: it has the most to lose."""
        leaders = [node for node in self._nodes if node.leading()]
        return leaders[0] if leaders and self._random.random() < 0.6 else self._random.choice(list(self._nodes))

    # At random

    def _kill_server(self) -> Undo:
        server = self._random.randrange(3)
        self._zk.kill(server)
        return lambda: self._zk.restart(server)

    def _pause_server(self) -> Undo:
        server = self._random.randrange(3)
        self._zk.pause(server)
        return lambda: self._zk.resume(server)

    def _cut_follower(self) -> Undo:
        server = self._random.choice(self._zk.followers)
        self._zk.cut(server)
        return lambda: self._zk.heal(server)

    def _change_leader(self) -> None:
        self._zk.change_leader()

    def _stall(self) -> None:
        self._zk.stall_commits(self._random.uniform(0.1, 6.0))

    def _pause_node(self) -> Undo:
        return self._stop(self._node(), hang=False)

    def _hang_node(self) -> Undo:
        return self._stop(self._node(), hang=True)

    def _stop(self, node: SimNode, *, hang: bool) -> Undo:
        agent = node.agent
        if agent is None:
            return lambda: None
        (self._world.hang if hang else self._world.pause)(node.process)

        def go_on() -> None:
            if node.agent is agent:
                self._world.resume(node.process)

        return go_on

    def _crash_node(self) -> None:
        self._node().crash()

    def _lose_node(self) -> Undo:
        node = self._node()
        node.lose()
        return lambda: node.start() if node.lost else None

    def _cut_links(self) -> Undo:
        node = self._node()
        self._zk.network.cut(node.name)
        return lambda: self._zk.network.heal(node.name)

    def _lose_replies(self) -> Undo:
        node = self._node()
        self._zk.network.cut(node.name, requests=False)
        return lambda: self._zk.network.heal(node.name)

    def _delay_replies(self) -> Undo:
        node = self._node()
        self._zk.network.delay_replies(node.name, self._random.uniform(0.1, 9.0))
        return lambda: self._zk.network.heal(node.name)

    def _depose(self) -> None:
        """An operator deletes the leader's place in the queue: its session lives on, and its writes are on their way."""
        self._oracles.contender_removed()
        names = sorted(self._zk.tree.children(PATHS.election), key=lambda name: name[-10:])
        if names:
            self._zk.remove(PATHS.contender(names[0]))

    def _scribble_on_the_epoch(self) -> None:
        if self._zk.tree.get(PATHS.epoch) is not None:
            self._zk.write(PATHS.epoch, self._random.randbytes(20))

    # Aimed

    def _hurt(self, transaction: Transaction) -> None:
        """Something happens to the process whose transaction this is, right now."""
        node = self._by_process.get(transaction.process)
        if node is None or node.agent is None:
            return
        now_s = self._world.now_s
        match self._random.randrange(7):
            case 0:
                node.crash()
            case 1:
                node.lose()
            case 2 | 3:
                self._world.at(now_s + self._random.uniform(0.05, 14.0), self._stop(node, hang=False))
            case 4:
                self._zk.network.cut(node.name)
                self._world.at(now_s + self._random.uniform(0.05, 14.0), self._zk.network.heal, node.name)
            case 5:
                self._zk.network.cut(node.name, requests=False)
                self._world.at(now_s + self._random.uniform(0.05, 14.0), self._zk.network.heal, node.name)
            case _:
                self._zk.change_leader()

    def _aim(self, match: Callable[[Transaction], bool], action: Callable[[Transaction], None], skip: int) -> None:
        hook = self._zk.before if self._random.random() < 0.5 else self._zk.after
        hook(match, lambda transaction: None if self._over else action(transaction), skip=skip)

    def _at_the_ascent(self) -> None:
        self._aim(lambda t: writes(t.operations, PATHS.epoch), self._hurt, skip=self._random.randrange(2))

    def _at_a_beat(self) -> None:
        self._aim(lambda t: writes(t.operations, PATHS.beat), self._hurt_or_depose, skip=self._random.randrange(1, 8))

    def _hurt_or_depose(self, transaction: Transaction) -> None:
        draw = self._random.random()
        if draw < 0.3:
            self._scribble_on_the_epoch()  # between the leader's decision and the commit of what it decided
            if draw < 0.2:
                # And the leader hears the answer, but cannot ask again.
                self._zk.network.cut(transaction.process.partition("/")[0], replies=False)
        elif draw < 0.5:
            # Not from inside the transaction: an operator's request takes its own turn.
            self._world.at(self._world.now_s, self._start, self._depose, 0.0)
        else:
            self._hurt(transaction)

    def _at_the_joining(self) -> None:
        self._aim(
            lambda t: any(path.startswith(PATHS.election) for path in t.paths), self._hurt, skip=self._random.randrange(3)
        )

    def _at_the_end_of_a_session(self) -> None:
        """A paused leader goes on at the very moment when its session ends, or just before or after."""
        node = self._node()
        self._world.at(self._random.uniform(2, 6), self._pause_until_its_session_ends, node)

    def _pause_until_its_session_ends(self, node: SimNode) -> None:
        leaders = [each for each in self._nodes if each.leading()]
        node = leaders[0] if leaders else node
        session = node.session
        if session is None:
            return
        go_on = self._stop(node, hang=False)
        offset_s = self._random.choice([0.0, 0.0, 0.001, 0.01, 0.1])
        self._aim(
            lambda t: t.kind is Kind.CLOSE and t.session_id == session.id,
            lambda _: self._world.at(self._world.now_s + offset_s, go_on),
            skip=0,
        )

    def _lonely_follower(self) -> None:
        """The leader's only server is cut off from the ensemble: it answers reads, and knows nothing."""
        self._world.at(self._random.uniform(2, 6), self._isolate)

    def _isolate(self) -> None:
        node = self._node()
        followers = self._zk.followers
        if not followers:
            return
        last = self._random.choice(followers)
        for server in range(len(self._zk.servers)):
            if server != last:
                self._zk.network.cut(node.name, server)
        # Give it time to settle on the only server it can reach; then cut that off, before it has reported the last beat.
        self._zk.after(
            lambda t: t.process == node.process and writes(t.operations, PATHS.beat),
            lambda _: None if self._over else self._zk.cut(last),
            skip=self._random.randrange(1, 4),
        )

    def _late_reply(self) -> None:
        """The reply to a beat comes late, and what is sent after that beat does not arrive."""
        delay_s = self._random.uniform(2.0, 9.0)

        def cut_requests(transaction: Transaction) -> None:
            node = self._by_process.get(transaction.process)
            if node is not None and not self._over:
                self._zk.network.delay_replies(node.name, delay_s)
                self._zk.network.cut(node.name, replies=False)

        self._zk.after(lambda t: writes(t.operations, PATHS.beat), cut_requests, skip=self._random.randrange(2, 6))

    def _late_look(self) -> None:
        """A leader is paused when its beat was committed, and cut off when it goes on: it finds an old reply in its mailbox."""
        pause_s = self._random.uniform(4.5, 9.5)

        def pause(transaction: Transaction) -> None:
            node = self._by_process.get(transaction.process)
            if node is not None and node.agent is not None and not self._over:
                go_on = self._stop(node, hang=False)
                self._world.at(self._world.now_s + pause_s - 0.1, self._cut, node.name)
                self._world.at(self._world.now_s + pause_s, go_on)

        self._zk.after(lambda t: writes(t.operations, PATHS.beat), pause, skip=self._random.randrange(1, 4))

    def _everyone_expires(self) -> None:
        """The leader is cut off when its beat is on its way, everybody else sleeps, and it is the first to be back."""

        def silence(transaction: Transaction) -> None:
            leader = self._by_process.get(transaction.process)
            if leader is None or self._over or self._world.now_s > 4.0:
                return
            now_s = self._world.now_s
            back_s = now_s + self._random.uniform(10.5, 11.5)
            self._zk.network.cut(leader.name)
            self._world.at(back_s, self._zk.network.heal, leader.name)
            for node in self._nodes:
                if node is not leader:
                    self._world.at(back_s + self._random.uniform(0.0, 1.0), self._stop(node, hang=False))

        self._aim(lambda t: writes(t.operations, PATHS.beat), silence, skip=self._random.randrange(1, 3))

    def _back_at_the_last_moment(self) -> None:
        """A paused leader goes on when its session is about to expire: a write is still committed, and saves nothing."""
        self._world.at(self._random.uniform(2, 4), self._pause_for_a_session)

    def _pause_for_a_session(self) -> None:
        if not self._over:
            self._world.at(self._world.now_s + self._random.uniform(9.0, 11.2), self._stop(self._node(), hang=False))

    def _cut(self, machine: str) -> None:
        if not self._over:
            self._zk.network.cut(machine)

    def _stale_beat(self) -> None:
        """A leader's beat is stuck on its way while another node takes the next epoch, and dies before its own first beat."""
        self._world.at(self._random.uniform(2, 6), self._hold_up_the_leader)

    def _hold_up_the_leader(self) -> None:
        node = self._node()
        self._zk.network.cut(node.name, replies=False)
        heartbeat_s = 1.2
        self._world.at(self._world.now_s + heartbeat_s, self._start, self._depose, 0.0)

        def silence(transaction: Transaction) -> None:
            successor = self._by_process.get(transaction.process)
            if successor is not None and successor is not node and not self._over:
                successor.lose()
                self._world.at(self._world.now_s + 0.01, self._zk.network.heal, node.name)

        self._zk.after(lambda t: writes(t.operations, PATHS.epoch), silence)
