"""What goes wrong at random moments: with ZooKeeper, the networks, whole machines, and single processes of an attempt."""

import random
from collections.abc import Callable, Sequence

from tests.sim.faults import Faults, Undo
from tests.sim.jobs.drivers import Driver
from tests.sim.jobs.machine import SimProcess
from tests.sim.jobs.node import JobNode, Surroundings
from tests.sim.jobs.oracles import JobOracles
from tests.sim.jobs.people import MACHINE
from tests.sim.nodes import SimNode
from tests.sim.world import World


class JobFaults(Faults):
    """Of the processes on one machine, one at a time is paused: against an agent, a runner and a watchdog that all stand still
    while the driver runs, there is no remedy on that machine."""

    def __init__(
        self, world: World, nodes: Sequence[JobNode], around: Surroundings, oracles: JobOracles, rng: random.Random
    ) -> None:
        super().__init__(world, nodes, oracles, rng)
        self.job_nodes = list(nodes)
        self.around = around
        self.job_oracles = oracles
        self._paused: dict[str, SimProcess | SimNode] = {}

    def choices(self) -> list[Callable[[], Undo | None]]:
        return [
            self._kill_server,
            self._pause_server,
            self._cut_follower,
            self._change_leader,
            self._stall,
            self._pause_node,
            self._hang_node,
            self._crash_node,
            self._crash_node,
            self._lose_node,
            self._lose_node,
            self._cut_links,
            self._cut_links,
            self._lose_replies,
            self._delay_replies,
            self._depose,
            self._pause_machine,
            self._pause_machine,
            self._pause_runner,
            self._pause_runner,
            self._hang_runner,
            self._crash_runner,
            self._crash_runner,
            self._terminate_runner,
            self._pause_watchdog,
            self._crash_watchdog,
            self._cut_lan,
            self._isolate_machine,
            self._slow_lan,
            self._lose_words,
        ]

    def random_one(self, at_s: float, until_s: float) -> None:
        fault = self._random.choice(self.choices())
        self._world.at(at_s, self._start, fault, min(at_s + self._random.uniform(0.05, 14.0), until_s))

    def heal_all(self) -> None:
        super().heal_all()
        self.around.lan.heal_all()
        self._zk.network.heal(MACHINE)
        for node in self.job_nodes:
            node.machine.resume()
            for process in self._world.processes_of(node.name):
                self._world.loop.resume(process)

    # Whom

    def driver(self) -> Driver | None:
        living = self.around.drivers.living()
        return self._random.choice(living) if living else None

    def node_of(self, driver: Driver) -> JobNode:
        return next(node for node in self.job_nodes if node.machine is driver.machine)

    def job_node(self) -> JobNode:
        """Mostly one that has something to lose."""
        driver = self.driver()
        if driver is not None and self._random.random() < 0.5:
            return self.node_of(driver)
        node = self._node()
        assert isinstance(node, JobNode)
        return node

    # Processes

    def _stop(self, node: SimNode, *, hang: bool) -> Undo:
        if node.name in self._paused or node.agent is None:
            return lambda: None
        self._paused[node.name] = node
        go_on = super()._stop(node, hang=hang)

        def over() -> None:
            self._paused.pop(node.name, None)
            assert isinstance(node, JobNode)
            if not node.machine.paused:
                go_on()

        return over

    def stop_process(self, process: SimProcess | None, *, hang: bool = False) -> Undo:
        if process is None or not process.alive or process.machine.name in self._paused or process.process.stopped:
            return lambda: None
        machine = process.machine
        self._paused[machine.name] = process
        self._world.record("hang" if hang else "pause", process.name)
        self._world.loop.pause(process.process, whole=not hang)

        def go_on() -> None:
            self._paused.pop(machine.name, None)
            if not machine.paused:
                self._world.record("resume", process.name)
                self._world.loop.resume(process.process)

        return go_on

    def kill_process(self, process: SimProcess | None) -> None:
        if process is not None and process.alive:
            process.machine.kill(process)

    def _pause_runner(self) -> Undo:
        driver = self.driver()
        return self.stop_process(driver.runner if driver else None)

    def _hang_runner(self) -> Undo:
        driver = self.driver()
        return self.stop_process(driver.runner if driver else None, hang=True)

    def _crash_runner(self) -> None:
        driver = self.driver()
        self.kill_process(driver.runner if driver else None)

    def _terminate_runner(self) -> None:
        """SIGTERM: its machine is going down in order."""
        driver = self.driver()
        if driver is not None and driver.runner is not None and driver.runner.alive:
            runner = self.node_of(driver).runners[driver.runner]
            self._world.loop.arrive(driver.runner.process, runner.shut_down)

    def _pause_watchdog(self) -> Undo:
        driver = self.driver()
        return self.stop_process(driver.watchdog if driver else None)

    def _crash_watchdog(self) -> None:
        driver = self.driver()
        self.kill_process(driver.watchdog if driver else None)

    # Machines

    def _pause_machine(self) -> Undo:
        machine = self.job_node().machine
        machine.pause()
        return machine.resume

    # Networks

    def _cut_lan(self) -> Undo:
        one, other = self._random.sample([node.name for node in self.job_nodes], 2)
        self.around.lan.cut(one, other)
        return lambda: self.around.lan.heal(one, other)

    def _isolate_machine(self) -> Undo:
        """From ZooKeeper and from all other nodes."""
        name = self.job_node().name
        others = [node.name for node in self.job_nodes if node.name != name]
        self._zk.network.cut(name)
        for other in others:
            self.around.lan.cut(name, other)

        def heal() -> None:
            self._zk.network.heal(name)
            for other in others:
                self.around.lan.heal(name, other)

        return heal

    def _slow_lan(self) -> Undo:
        self.around.lan.delay_s = self._random.uniform(0.1, 1.5)

        def heal() -> None:
            self.around.lan.delay_s = 0.005

        return heal

    def _lose_words(self) -> Undo:
        """People get no answers."""
        self._zk.network.cut(MACHINE, requests=False)
        return lambda: self._zk.network.heal(MACHINE)
