"""What goes wrong by a script while a driver lives by promises."""

from collections.abc import Callable

from holdfast.model.identifiers import JobId, NodeId
from holdfast.zk.session.client import Create
from tests.sim.jobs.aims import ORDER
from tests.sim.jobs.drivers import Driver
from tests.sim.jobs.leader_scripts import LeaderScripts
from tests.sim.jobs.node import JobNode
from tests.sim.nodes import PATHS
from tests.sim.zk.request import Transaction


def changes_the_set(machine: str) -> Callable[[Transaction], bool]:
    """A heartbeat of a runner there, with a new failsafe set."""

    def matches(transaction: Transaction) -> bool:
        reports = [each for each in transaction.operations if each.path.endswith("/report")]
        return transaction.process.startswith(f"{machine}/runner") and bool(reports)

    return matches


def order_for(job: JobId) -> Callable[[Transaction], bool]:
    """An order for the next attempt of this job."""

    def matches(transaction: Transaction) -> bool:
        return ORDER(transaction) and PATHS.job(job, "attempt") in transaction.paths

    return matches


class Scripts(LeaderScripts):
    def exile(self) -> None:
        """A machine loses ZooKeeper, and only that: its drivers live by promises."""
        self._world.at(self._random.uniform(5.0, 7.0), self._banish)

    def _banish(self) -> None:
        driver = self.driver()
        if driver is None or self._over:
            return
        name = driver.machine.name
        self._zk.network.cut(name)
        self.after(self._random.uniform(12.0, 28.0), self._zk.network.heal, name)
        mishap = self._random.choice(
            [
                self._nothing,
                self._power_after_promise,
                self._power_with_an_order,
                self._power_with_an_order,
                self._crash_after_promise,
                self._pause_while_asking,
                self._pause_while_asking,
                self._watchdog_stands_still,
                self._slow_answers,
                self._lan_too,
                self._one_link_too,
            ]
        )
        self.names.append(mishap.__name__)
        mishap(driver)

    def _nothing(self, _: Driver) -> None:
        """It is bad enough."""

    def on_promise(self, action: Callable[[JobNode], None], *, skip: int = 0) -> None:
        left = [skip]

        def noticed(node: JobNode) -> None:
            left[0] -= 1
            if left[0] == -1 and not self._over:
                self.after(0.0, action, node)

        self.around.lan.on_promise = noticed

    def _power_after_promise(self, driver: Driver) -> None:
        def fail(node: JobNode) -> None:
            if node.machine is not driver.machine:
                node.lose()
                self.after(self._random.uniform(0.3, 3.0), self.back, node)

        self.on_promise(fail, skip=self._random.randrange(12))

    def _power_with_an_order(self, driver: Driver) -> None:
        """A node that has promised is given the next attempt. Its power fails and comes back at once, and the driver that lives
        by the promise does not reach it any more, so that it does not promise again."""

        def ordered(transaction: Transaction) -> None:
            written = {each.path for each in transaction.operations if isinstance(each, Create)}
            node = next(node for node in self.job_nodes if PATHS.order(NodeId(node.name), driver.job) in written)
            if node.machine is not driver.machine:
                self.around.lan.cut(driver.machine.name, node.name)
                self.after(0.0, node.lose)
                self.after(self._random.uniform(0.1, 2.0), self.back, node)

        self.at(order_for(driver.job), ordered, skip=0, before=False)

    def _crash_after_promise(self, _: Driver) -> None:
        self.on_promise(lambda node: node.crash(), skip=self._random.randrange(8))

    def _pause_while_asking(self, driver: Driver) -> None:
        """The runner stands still between its question and the answers, and then nobody answers any more."""

        def pause(_: JobNode) -> None:
            self.after(self._random.uniform(1.0, 3.5), self.stop_process(driver.runner))
            self.after(0.3, self.cut_lan_of, driver.machine.name)

        self.on_promise(pause, skip=self._random.randrange(9))

    def _watchdog_stands_still(self, driver: Driver) -> None:
        self.after(self._random.uniform(0.0, 4.0), self._pause_its_watchdog, driver)
        self.after(self._random.uniform(4.0, 8.0), self.cut_lan_of, driver.machine.name)

    def _pause_its_watchdog(self, driver: Driver) -> None:
        if not self._over:
            self.after(14.0, self.stop_process(driver.watchdog))

    def _slow_answers(self, driver: Driver) -> None:
        self.around.lan.delay_s = self._random.uniform(0.5, 1.9)
        self.after(self._random.uniform(4.0, 8.0), self.cut_lan_of, driver.machine.name)

    def _lan_too(self, driver: Driver) -> None:
        self.after(self._random.uniform(0.0, 10.0), self.cut_lan_of, driver.machine.name)

    def _one_link_too(self, driver: Driver) -> None:
        others = [node.name for node in self.job_nodes if node.machine is not driver.machine]
        self.after(self._random.uniform(0.0, 10.0), self.around.lan.cut, driver.machine.name, self._random.choice(others))

    def newcomer(self) -> None:
        """A node that was away when the failsafe set was written down comes back while the set lives by promises."""
        self._world.at(self._random.uniform(5.0, 6.0), self._send_away)

    def _send_away(self) -> None:
        driver = self.driver()
        if driver is None or self._over:
            return
        away, machine = self._somebody_else(driver), driver.machine.name
        away.lose()

        def banish(_: Transaction) -> None:
            self._zk.network.cut(machine)
            self.after(18.0, self._zk.network.heal, machine)
            self.after(self._random.uniform(0.5, 8.0), self.back, away)
            self._leave_alone(away, driver)

        self.at(changes_the_set(machine), banish, skip=0, before=False)
        self.after(25.0, self.back, away)

    def unsure_set(self) -> None:
        """The reply to the heartbeat that changes the failsafe set is lost, and with it the connection."""
        self._world.at(self._random.uniform(5.0, 6.0), self._change_the_set)

    def _change_the_set(self) -> None:
        driver = self.driver()
        if driver is None or self._over:
            return
        away, machine = self._somebody_else(driver), driver.machine.name
        away.crash()

        def banish(_: Transaction) -> None:
            self._zk.network.cut(machine)
            self.after(16.0, self._zk.network.heal, machine)
            self._leave_alone(away, driver)

        self.at(changes_the_set(machine), banish, skip=self._random.randrange(2), before=False)

    def _somebody_else(self, driver: Driver) -> JobNode:
        return self._random.choice([node for node in self.job_nodes if node.machine is not driver.machine])

    def _leave_alone(self, node: JobNode, driver: Driver) -> None:
        """So that the next attempt is given to this node, if to any: all others are asleep when it is placed."""
        if self._random.random() < 0.3:
            return
        for other in self.job_nodes:
            if other is not node and other.machine is not driver.machine:
                self.after(3.0, self._fall_asleep, other)

    def _fall_asleep(self, node: JobNode) -> None:
        if not self._over:
            self.later(self._stop(node, hang=False))
