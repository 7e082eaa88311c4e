"""Faults of leadership schedules: at random times, and at the moments when an epoch or a session changes."""

import random
from collections.abc import Callable, Sequence

from tests.sim.leadership.agent_node import PATHS, SimNode
from tests.sim.leadership.oracles import LeadershipOracles, sets_data
from tests.sim.world import World
from tests.sim.zk.requests import RequestKind, Transaction

Undo = Callable[[], None]


class LeadershipFaults:
    def __init__(self, world: World, nodes: Sequence[SimNode], oracles: LeadershipOracles, rng: random.Random) -> None:
        self._world = world
        self._zk = world.zk
        self._nodes = nodes
        self._oracles = oracles
        self._random = rng
        self._nodes_by_process = {node.process: node for node in nodes}
        self._healed = False
        self.fault_names: list[str] = []

    # Selection

    def schedule_random_fault(self, at_s: float, until_s: float) -> None:
        fault = self._random.choice(
            [
                self._kill_server,
                self._pause_server,
                self._cut_follower,
                self._change_leader,
                self._stall_commits,
                self._pause_node,
                self._pause_node,
                self._hang_node,
                self._crash_node,
                self._power_off_node,
                self._cut_links,
                self._lose_replies,
                self._delay_replies,
                self._delete_leader_contender,
                self._overwrite_epoch,
            ]
        )
        self._world.schedule_at(at_s, self._apply_fault, fault, min(at_s + self._random.uniform(0.05, 14.0), until_s))

    def arm_targeted_fault(self) -> None:
        arm_fault = self._random.choice(
            [
                self._fault_at_epoch_change,
                self._fault_at_epoch_change,
                self._fault_at_heartbeat,
                self._resume_at_session_end,
                self._fault_at_election_join,
                self._isolate_follower_of_leader,
                self._delay_heartbeat_reply,
                self._pause_after_heartbeat,
                self._delay_heartbeat_past_new_epoch,
                self._expire_all_sessions,
                self._resume_before_expiry,
                self._resume_before_expiry,
            ]
        )
        self.fault_names.append(arm_fault.__name__)
        arm_fault()

    def heal_all(self) -> None:
        """Undo all faults and disarm the targeted faults that have not fired."""
        self._healed = True
        for server in self._zk.servers:
            self._zk.resume(server.index)
            self._zk.heal(server.index)
            self._zk.restart(server.index)
        for node in self._nodes:
            if node.agent is not None:
                self._world.resume(node.process)
            elif node.powered_off:
                node.start()
            self._zk.network.heal(node.name)

    def _apply_fault(self, fault: Callable[[], Undo | None], until_s: float) -> None:
        if self._healed:
            return
        self.fault_names.append(fault.__name__)
        undo = fault()
        if undo is not None:
            self._world.schedule_at(max(until_s, self._world.now_s), undo)

    def _choose_node(self) -> SimNode:
        """Choose a node to disturb, preferably the leader."""
        leaders = [node for node in self._nodes if node.is_leading()]
        return leaders[0] if leaders and self._random.random() < 0.6 else self._random.choice(list(self._nodes))

    # Random faults

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

    def _stall_commits(self) -> None:
        self._zk.stall_commits(self._random.uniform(0.1, 6.0))

    def _pause_node(self) -> Undo:
        return self._suspend_agent(self._choose_node(), hang=False)

    def _hang_node(self) -> Undo:
        return self._suspend_agent(self._choose_node(), hang=True)

    def _suspend_agent(self, node: SimNode, *, hang: bool) -> Undo:
        """Pause or hang the agent now, and return the function that resumes it."""
        agent = node.agent
        if agent is None:
            return lambda: None
        (self._world.hang if hang else self._world.pause)(node.process)

        def resume() -> None:
            if node.agent is agent:
                self._world.resume(node.process)

        return resume

    def _crash_node(self) -> None:
        self._choose_node().crash()

    def _power_off_node(self) -> Undo:
        node = self._choose_node()
        node.power_off()
        return lambda: node.start() if node.powered_off else None

    def _cut_links(self) -> Undo:
        node = self._choose_node()
        self._zk.network.cut(node.name)
        return lambda: self._zk.network.heal(node.name)

    def _lose_replies(self) -> Undo:
        node = self._choose_node()
        self._zk.network.cut(node.name, requests=False)
        return lambda: self._zk.network.heal(node.name)

    def _delay_replies(self) -> Undo:
        node = self._choose_node()
        self._zk.network.delay_replies(node.name, self._random.uniform(0.1, 9.0))
        return lambda: self._zk.network.heal(node.name)

    def _delete_leader_contender(self) -> None:
        """Delete the leader's contender znode, as an operator could. Its session and its writes in flight remain."""
        self._oracles.allow_rejoin()
        names = sorted(self._zk.tree.children(PATHS.election), key=lambda name: name[-10:])
        if names:
            self._zk.remove(PATHS.contender(names[0]))

    def _overwrite_epoch(self) -> None:
        if self._zk.tree.get(PATHS.epoch) is not None:
            self._zk.write(PATHS.epoch, self._random.randbytes(20))

    # Targeted faults

    def _disturb_sender(self, transaction: Transaction) -> None:
        """Disturb the process that sent the transaction, immediately."""
        node = self._nodes_by_process.get(transaction.process)
        if node is None or node.agent is None:
            return
        now_s = self._world.now_s
        match self._random.randrange(7):
            case 0:
                node.crash()
            case 1:
                node.power_off()
            case 2 | 3:
                self._world.schedule_at(now_s + self._random.uniform(0.05, 14.0), self._suspend_agent(node, hang=False))
            case 4:
                self._zk.network.cut(node.name)
                self._world.schedule_at(now_s + self._random.uniform(0.05, 14.0), self._zk.network.heal, node.name)
            case 5:
                self._zk.network.cut(node.name, requests=False)
                self._world.schedule_at(now_s + self._random.uniform(0.05, 14.0), self._zk.network.heal, node.name)
            case _:
                self._zk.change_leader()

    def _hook_transaction(self, match: Callable[[Transaction], bool], action: Callable[[Transaction], None], skip: int) -> None:
        hook = self._zk.hook_before if self._random.random() < 0.5 else self._zk.hook_after
        hook(match, lambda transaction: None if self._healed else action(transaction), skip=skip)

    def _fault_at_epoch_change(self) -> None:
        self._hook_transaction(
            lambda t: sets_data(t.operations, PATHS.epoch), self._disturb_sender, skip=self._random.randrange(2)
        )

    def _fault_at_heartbeat(self) -> None:
        self._hook_transaction(
            lambda t: sets_data(t.operations, PATHS.beat), self._disturb_heartbeat, skip=self._random.randrange(1, 8)
        )

    def _disturb_heartbeat(self, transaction: Transaction) -> None:
        draw = self._random.random()
        if draw < 0.3:
            self._overwrite_epoch()  # between the leader's decision and the commit
            if draw < 0.2:
                # The leader gets the reply but cannot send another request.
                self._zk.network.cut(transaction.process.partition("/")[0], replies=False)
        elif draw < 0.5:
            # An operator's request is a separate transaction, so it must not run inside this one.
            self._world.schedule_at(self._world.now_s, self._apply_fault, self._delete_leader_contender, 0.0)
        else:
            self._disturb_sender(transaction)

    def _fault_at_election_join(self) -> None:
        self._hook_transaction(
            lambda t: any(path.startswith(PATHS.election) for path in t.paths),
            self._disturb_sender,
            skip=self._random.randrange(3),
        )

    def _resume_at_session_end(self) -> None:
        """Pause the leader and resume it when its session ends, or just before or after."""
        node = self._choose_node()
        self._world.schedule_at(self._random.uniform(2, 6), self._pause_until_session_end, node)

    def _pause_until_session_end(self, node: SimNode) -> None:
        leaders = [each for each in self._nodes if each.is_leading()]
        node = leaders[0] if leaders else node
        session = node.session
        if session is None:
            return
        resume = self._suspend_agent(node, hang=False)
        offset_s = self._random.choice([0.0, 0.0, 0.001, 0.01, 0.1])
        self._hook_transaction(
            lambda t: t.kind is RequestKind.CLOSE and t.session_id == session.id,
            lambda _: self._world.schedule_at(self._world.now_s + offset_s, resume),
            skip=0,
        )

    def _isolate_follower_of_leader(self) -> None:
        """Cut the leader's only reachable server off from the ensemble: that server still answers reads from old data."""
        self._world.schedule_at(self._random.uniform(2, 6), self._isolate_leader_with_follower)

    def _isolate_leader_with_follower(self) -> None:
        node = self._choose_node()
        followers = self._zk.followers
        if not followers:
            return
        last = self._random.choice(followers)
        for server in range(len(self._zk.servers)):
            if server != last:
                self._zk.network.cut(node.name, server)
        # Let the leader connect to its only reachable server. Then cut that server off before it reports the last heartbeat.
        self._zk.hook_after(
            lambda t: t.process == node.process and sets_data(t.operations, PATHS.beat),
            lambda _: None if self._healed else self._zk.cut(last),
            skip=self._random.randrange(1, 4),
        )

    def _delay_heartbeat_reply(self) -> None:
        """Delay the reply to a heartbeat, and block all later requests."""
        delay_s = self._random.uniform(2.0, 9.0)

        def cut_requests(transaction: Transaction) -> None:
            node = self._nodes_by_process.get(transaction.process)
            if node is not None and not self._healed:
                self._zk.network.delay_replies(node.name, delay_s)
                self._zk.network.cut(node.name, replies=False)

        self._zk.hook_after(lambda t: sets_data(t.operations, PATHS.beat), cut_requests, skip=self._random.randrange(2, 6))

    def _pause_after_heartbeat(self) -> None:
        """Pause the leader when its heartbeat is committed, and cut it off when it resumes: it then reads an old reply."""
        pause_s = self._random.uniform(4.5, 9.5)

        def pause(transaction: Transaction) -> None:
            node = self._nodes_by_process.get(transaction.process)
            if node is not None and node.agent is not None and not self._healed:
                resume = self._suspend_agent(node, hang=False)
                self._world.schedule_at(self._world.now_s + pause_s - 0.1, self._cut_machine, node.name)
                self._world.schedule_at(self._world.now_s + pause_s, resume)

        self._zk.hook_after(lambda t: sets_data(t.operations, PATHS.beat), pause, skip=self._random.randrange(1, 4))

    def _expire_all_sessions(self) -> None:
        """Cut the leader off until its session expires and pause the other nodes, so that it is the first to reconnect."""

        def cut_off(transaction: Transaction) -> None:
            leader = self._nodes_by_process.get(transaction.process)
            if leader is None or self._healed or self._world.now_s > 4.0:
                return
            now_s = self._world.now_s
            reconnect_s = now_s + self._random.uniform(10.5, 11.5)
            self._zk.network.cut(leader.name)
            self._world.schedule_at(reconnect_s, self._zk.network.heal, leader.name)
            for node in self._nodes:
                if node is not leader:
                    self._world.schedule_at(reconnect_s + self._random.uniform(0.0, 1.0), self._suspend_agent(node, hang=False))

        self._hook_transaction(lambda t: sets_data(t.operations, PATHS.beat), cut_off, skip=self._random.randrange(1, 3))

    def _resume_before_expiry(self) -> None:
        """Pause the leader until just before its session expires: its next write is committed but does not help."""
        self._world.schedule_at(self._random.uniform(2, 4), self._pause_for_session_timeout)

    def _pause_for_session_timeout(self) -> None:
        if not self._healed:
            self._world.schedule_at(
                self._world.now_s + self._random.uniform(9.0, 11.2), self._suspend_agent(self._choose_node(), hang=False)
            )

    def _cut_machine(self, machine: str) -> None:
        if not self._healed:
            self._zk.network.cut(machine)

    def _delay_heartbeat_past_new_epoch(self) -> None:
        """Block the leader's heartbeat until another node has taken the next epoch and died before its own first heartbeat."""
        self._world.schedule_at(self._random.uniform(2, 6), self._block_leader_requests)

    def _block_leader_requests(self) -> None:
        node = self._choose_node()
        self._zk.network.cut(node.name, replies=False)
        heartbeat_s = 1.2
        self._world.schedule_at(self._world.now_s + heartbeat_s, self._apply_fault, self._delete_leader_contender, 0.0)

        def power_off_successor(transaction: Transaction) -> None:
            successor = self._nodes_by_process.get(transaction.process)
            if successor is not None and successor is not node and not self._healed:
                successor.power_off()
                self._world.schedule_at(self._world.now_s + 0.01, self._zk.network.heal, node.name)

        self._zk.hook_after(lambda t: sets_data(t.operations, PATHS.epoch), power_off_successor)
