"""Scripted faults while a driver runs on failsafe promises."""

from collections.abc import Callable

from holdfast.model.identifiers import JobId, NodeId
from holdfast.zk.session.client import Create
from tests.sim.jobs.cluster.drivers import Driver
from tests.sim.jobs.cluster.job_node import JobNode
from tests.sim.jobs.faults.leader_scripts import LeaderScripts
from tests.sim.leadership.agent_node import PATHS, TIMEOUT_S
from tests.sim.zk.requests import Transaction


def changes_failsafe_set(machine: str) -> Callable[[Transaction], bool]:
    """Return a matcher for heartbeats of a runner on the machine that write a new failsafe set."""

    def matches(transaction: Transaction) -> bool:
        reports = [each for each in transaction.operations if each.path.endswith("/report")]
        return transaction.process.startswith(f"{machine}/runner") and bool(reports)

    return matches


def orders_node(job: JobId) -> Callable[[Transaction], bool]:
    """Return a matcher for transactions that order a node to end the job's attempt, or to start the next one."""

    def matches(transaction: Transaction) -> bool:
        created = [each.path for each in transaction.operations if isinstance(each, Create)]
        return any(path.startswith(f"{PATHS.orders}/") and path.endswith(f"/{job}") for path in created)

    return matches


class FailsafeScripts(LeaderScripts):
    def cut_zookeeper_from_driver(self) -> None:
        """Cut a driver's machine off from ZooKeeper only, so that the driver runs on promises. Add a second fault at random."""
        self._world.schedule_at(self._random.uniform(5.0, 7.0), self._cut_zookeeper)

    def _cut_zookeeper(self) -> None:
        driver = self.choose_driver()
        if driver is None or self._healed:
            return
        name = driver.machine.name
        self._zk.network.cut(name)
        self.call_later(self._random.uniform(12.0, 28.0), self._zk.network.heal, name)
        second_fault = self._random.choice(
            [
                self._no_second_fault,
                self._power_off_after_promise,
                self._power_cycle_ordered_node,
                self._power_cycle_ordered_node,
                self._crash_after_promise,
                self._pause_during_promise_request,
                self._pause_during_promise_request,
                self._pause_watchdog_before_isolation,
                self._slow_lan_before_isolation,
                self._cut_lan_of_driver,
                self._cut_one_lan_link,
            ]
        )
        self.fault_names.append(second_fault.__name__)
        second_fault(driver)

    def _no_second_fault(self, _: Driver) -> None:
        """Add no second fault."""

    def on_promise(self, driver: Driver, action: Callable[[JobNode], None], *, skip: int = 0) -> None:
        """Run the action once, after `skip` batches for the driver's machine, on the node that grants the next one."""
        skips_left = [skip]

        def count_promise(node: JobNode, requester: str) -> None:
            if requester != driver.machine.name:
                return
            skips_left[0] -= 1
            if skips_left[0] == -1 and not self._healed:
                self.call_later(0.0, action, node)

        self.environment.lan.on_promise = count_promise

    def _power_off_after_promise(self, driver: Driver) -> None:
        def fail(node: JobNode) -> None:
            if node.machine is not driver.machine:
                node.power_off()
                self.call_later(self._random.uniform(0.3, 3.0), self.power_on, node)

        self.on_promise(driver, fail, skip=self._random.randrange(12))

    def _power_cycle_ordered_node(self, driver: Driver) -> None:
        """Power-cycle a node that has promised, when it is ordered to end the attempt or to start the next one.

        The driver that runs on the promise can no longer reach the node, so the node does not promise again.
        """

        def power_cycle(transaction: Transaction) -> None:
            created_paths = {each.path for each in transaction.operations if isinstance(each, Create)}
            node = next(node for node in self.job_nodes if PATHS.order(NodeId(node.name), driver.job) in created_paths)
            if node.machine is not driver.machine:
                self.environment.lan.cut(driver.machine.name, node.name)
                self.call_later(0.0, node.power_off)
                self.call_later(self._random.uniform(0.1, 2.0), self.power_on, node)

        self.hook_transaction(orders_node(driver.job), power_cycle, skip=0, before=False)

    def _crash_after_promise(self, driver: Driver) -> None:
        self.on_promise(driver, lambda node: node.crash(), skip=self._random.randrange(8))

    def _pause_during_promise_request(self, driver: Driver) -> None:
        """Pause the agent between its promise request and the replies, or the runner, then cut the LAN of their machine."""

        def pause(_: JobNode) -> None:
            paused_s = self._random.uniform(1.0, 3.5)
            if self._random.random() < 0.7:
                self.call_later(paused_s, self._suspend_agent(self.node_of(driver), hang=self._random.random() < 0.5))
            else:
                self.call_later(paused_s, self.suspend_process(driver.runner))
            self.call_later(0.3, self.cut_lan_of, driver.machine.name)

        self.on_promise(driver, pause, skip=self._random.randrange(9))

    def _pause_watchdog_before_isolation(self, driver: Driver) -> None:
        self.call_later(self._random.uniform(0.0, 4.0), self._pause_watchdog_of, driver)
        self.call_later(self._random.uniform(4.0, 8.0), self.cut_lan_of, driver.machine.name)

    def _pause_watchdog_of(self, driver: Driver) -> None:
        if not self._healed:
            self.call_later(20.0, self.suspend_process(driver.watchdog))

    def _slow_lan_before_isolation(self, driver: Driver) -> None:
        self.environment.lan.delay_s = self._random.uniform(0.5, 1.9)
        self.call_later(self._random.uniform(4.0, 8.0), self.cut_lan_of, driver.machine.name)

    def _cut_lan_of_driver(self, driver: Driver) -> None:
        self.call_later(self._random.uniform(0.0, 10.0), self.cut_lan_of, driver.machine.name)

    def _cut_one_lan_link(self, driver: Driver) -> None:
        others = [node.name for node in self.job_nodes if node.machine is not driver.machine]
        self.call_later(
            self._random.uniform(0.0, 10.0), self.environment.lan.cut, driver.machine.name, self._random.choice(others)
        )

    def isolate_runner_with_new_session(self) -> None:
        """Isolate a runner whose session has expired, after it has opened a new one and before it takes the lease again."""
        self._world.schedule_at(self._random.uniform(5.0, 7.0), self._expire_session_of_runner)

    def _expire_session_of_runner(self) -> None:
        driver = self.choose_driver()
        if driver is None or driver.runner is None or self._healed:
            return
        name, runner = driver.machine.name, driver.runner.name
        reconnect_s = TIMEOUT_S + self._random.uniform(1.2, 4.0)
        self._zk.network.cut(name)
        self.call_later(reconnect_s - self._random.uniform(0.0, 5.5), self.cut_lan_of, name)
        self.call_later(reconnect_s, self._zk.network.heal, name)

        def isolate(process: str, path: str) -> None:
            if process == runner and path == PATHS.job(driver.job, "attempt") and not self._healed:
                self._zk.on_read = None
                self.call_later(0.0, self._zk.network.cut, name)
                if self._random.random() < 0.5:
                    self.call_later(self._random.uniform(1.0, 8.0), self._zk.network.heal, name)

        self._zk.on_read = isolate

    def return_node_outside_set(self) -> None:
        """Return a node that was down when the failsafe set was written, while the driver runs on promises."""
        self._world.schedule_at(self._random.uniform(5.0, 6.0), self._power_off_other_node)

    def _power_off_other_node(self) -> None:
        driver = self.choose_driver()
        if driver is None or self._healed:
            return
        other_node, machine = self._choose_other_node(driver), driver.machine.name
        other_node.power_off()

        def cut_zookeeper(_: Transaction) -> None:
            self._zk.network.cut(machine)
            self.call_later(18.0, self._zk.network.heal, machine)
            self.call_later(self._random.uniform(0.5, 8.0), self.power_on, other_node)
            self._suspend_other_nodes(other_node, driver)

        self.hook_transaction(changes_failsafe_set(machine), cut_zookeeper, skip=0, before=False)
        self.call_later(25.0, self.power_on, other_node)

    def join_node_without_promises(self) -> None:
        """Start a node that has never promised, and cut it and ZooKeeper off when its name is written to the failsafe set."""
        late_node = self._random.choice(self.job_nodes)
        self._world.schedule_at(0.6, self._shut_down, late_node)
        self._world.schedule_at(self._random.uniform(5.0, 7.0), self._join_late_node, late_node)

    def _shut_down(self, node: JobNode) -> None:
        """Power the node off after its agent has closed its session."""
        session = node.session
        node.power_off()
        if session is not None:
            self._zk.close_session(session)

    def _join_late_node(self, late_node: JobNode) -> None:
        driver = self.choose_driver()
        if driver is None or driver.machine is late_node.machine:
            self.power_on(late_node)
            return
        machine = driver.machine.name
        self.environment.lan.cut(machine, late_node.name)

        def cut_zookeeper(_: Transaction) -> None:
            self._zk.network.cut(machine)
            self.call_later(16.0, self._zk.network.heal, machine)
            self.call_later(self._random.uniform(0.0, 6.0), self._pause_watchdog_of, driver)

        self.hook_transaction(changes_failsafe_set(machine), cut_zookeeper, skip=0, before=False)
        self.power_on(late_node)

    def lose_reply_of_set_change(self) -> None:
        """Lose the connection at the heartbeat that changes the failsafe set, so that its outcome is unknown."""
        self._world.schedule_at(self._random.uniform(5.0, 6.0), self._crash_other_node)

    def _crash_other_node(self) -> None:
        driver = self.choose_driver()
        if driver is None or self._healed:
            return
        other_node, machine = self._choose_other_node(driver), driver.machine.name
        other_node.crash()

        def cut_zookeeper(_: Transaction) -> None:
            self._zk.network.cut(machine)
            self.call_later(16.0, self._zk.network.heal, machine)
            if self._random.random() < 0.5:
                # The node cannot promise any more. The promises of the other nodes must not be enough.
                self.environment.lan.cut(machine, other_node.name)
            self._suspend_other_nodes(other_node, driver)

        self.hook_transaction(changes_failsafe_set(machine), cut_zookeeper, skip=self._random.randrange(2), before=False)

    def _choose_other_node(self, driver: Driver) -> JobNode:
        return self._random.choice([node for node in self.job_nodes if node.machine is not driver.machine])

    def _suspend_other_nodes(self, node: JobNode, driver: Driver) -> None:
        """Suspend all other nodes, so that the next attempt can only be assigned to this node."""
        if self._random.random() < 0.3:
            return
        for other in self.job_nodes:
            if other is not node and other.machine is not driver.machine:
                self.call_later(3.0, self._suspend_unless_healed, other)

    def _suspend_unless_healed(self, node: JobNode) -> None:
        if not self._healed:
            self.undo_later(self._suspend_agent(node, hang=False))
