"""Random faults: of ZooKeeper, of the networks, of whole machines, and of single processes of an attempt."""

import random
from collections.abc import Callable, Sequence

from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.jobs.cluster.drivers import Driver
from tests.sim.jobs.cluster.job_node import JobNode, SharedEnvironment
from tests.sim.jobs.cluster.machine import SimProcess
from tests.sim.jobs.users import USERS_MACHINE
from tests.sim.leadership.agent_node import SimNode
from tests.sim.leadership.faults import LeadershipFaults, Undo
from tests.sim.world import World


class RandomFaults(LeadershipFaults):
    """Faults at random times.

    At most one process per machine is paused at a time. If agent, runner and watchdog were all paused, no process could
    kill the driver.
    """

    def __init__(
        self, world: World, nodes: Sequence[JobNode], environment: SharedEnvironment, oracles: JobOracles, rng: random.Random
    ) -> None:
        super().__init__(world, nodes, oracles, rng)
        self.job_nodes = list(nodes)
        self.environment = environment
        self.job_oracles = oracles
        self._paused: dict[str, SimProcess | SimNode] = {}

    def fault_choices(self) -> list[Callable[[], Undo | None]]:
        return [
            self._kill_server,
            self._pause_server,
            self._cut_follower,
            self._change_leader,
            self._stall_commits,
            self._pause_node,
            self._hang_node,
            self._crash_node,
            self._crash_node,
            self._power_off_node,
            self._power_off_node,
            self._cut_links,
            self._cut_links,
            self._lose_replies,
            self._delay_replies,
            self._delete_leader_contender,
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
            self._lose_user_replies,
        ]

    def schedule_random_fault(self, at_s: float, until_s: float) -> None:
        fault = self._random.choice(self.fault_choices())
        self._world.schedule_at(at_s, self._apply_fault, fault, min(at_s + self._random.uniform(0.05, 14.0), until_s))

    def heal_all(self) -> None:
        super().heal_all()
        self.environment.lan.heal_all()
        self._zk.network.heal(USERS_MACHINE)
        for node in self.job_nodes:
            node.machine.resume()
            for process in self._world.processes_of(node.name):
                self._world.loop.resume(process)

    # Selection

    def choose_driver(self) -> Driver | None:
        living = self.environment.drivers.list_alive()
        return self._random.choice(living) if living else None

    def node_of(self, driver: Driver) -> JobNode:
        return next(node for node in self.job_nodes if node.machine is driver.machine)

    def choose_node(self) -> JobNode:
        """Choose a node to disturb, preferably one that runs a driver or leads."""
        driver = self.choose_driver()
        if driver is not None and self._random.random() < 0.5:
            return self.node_of(driver)
        node = self._choose_node()
        assert isinstance(node, JobNode)
        return node

    # Processes

    def _suspend_agent(self, node: SimNode, *, hang: bool) -> Undo:
        if node.name in self._paused or node.agent is None:
            return lambda: None
        self._paused[node.name] = node
        resume = super()._suspend_agent(node, hang=hang)

        def resume_agent() -> None:
            self._paused.pop(node.name, None)
            assert isinstance(node, JobNode)
            if not node.machine.paused:
                resume()

        return resume_agent

    def suspend_process(self, process: SimProcess | None, *, hang: bool = False) -> Undo:
        """Pause or hang the process now, and return the function that resumes it."""
        if process is None or not process.alive or process.machine.name in self._paused or process.process.stopped:
            return lambda: None
        machine = process.machine
        self._paused[machine.name] = process
        self._world.record("hang" if hang else "pause", process.name)
        self._world.loop.pause(process.process, stop_resources=not hang)

        def resume() -> None:
            self._paused.pop(machine.name, None)
            if not machine.paused:
                self._world.record("resume", process.name)
                self._world.loop.resume(process.process)

        return resume

    def kill_process(self, process: SimProcess | None) -> None:
        if process is not None and process.alive:
            process.machine.kill(process)

    def _pause_runner(self) -> Undo:
        driver = self.choose_driver()
        return self.suspend_process(driver.runner if driver else None)

    def _hang_runner(self) -> Undo:
        driver = self.choose_driver()
        return self.suspend_process(driver.runner if driver else None, hang=True)

    def _crash_runner(self) -> None:
        driver = self.choose_driver()
        self.kill_process(driver.runner if driver else None)

    def _terminate_runner(self) -> None:
        """Send SIGTERM to a runner, as a machine that shuts down does."""
        driver = self.choose_driver()
        if driver is not None and driver.runner is not None and driver.runner.alive:
            runner = self.node_of(driver).runners[driver.runner]
            self._world.loop.deliver(driver.runner.process, runner.shut_down)

    def _pause_watchdog(self) -> Undo:
        driver = self.choose_driver()
        return self.suspend_process(driver.watchdog if driver else None)

    def _crash_watchdog(self) -> None:
        driver = self.choose_driver()
        self.kill_process(driver.watchdog if driver else None)

    # Machines

    def _pause_machine(self) -> Undo:
        machine = self.choose_node().machine
        machine.pause()
        return machine.resume

    # Networks

    def _cut_lan(self) -> Undo:
        one, other = self._random.sample([node.name for node in self.job_nodes], 2)
        self.environment.lan.cut(one, other)
        return lambda: self.environment.lan.heal(one, other)

    def _isolate_machine(self) -> Undo:
        """Cut a machine off from ZooKeeper and from all other nodes."""
        name = self.choose_node().name
        others = [node.name for node in self.job_nodes if node.name != name]
        self._zk.network.cut(name)
        for other in others:
            self.environment.lan.cut(name, other)

        def heal() -> None:
            self._zk.network.heal(name)
            for other in others:
                self.environment.lan.heal(name, other)

        return heal

    def _slow_lan(self) -> Undo:
        self.environment.lan.delay_s = self._random.uniform(0.1, 1.5)

        def heal() -> None:
            self.environment.lan.delay_s = 0.005

        return heal

    def _lose_user_replies(self) -> Undo:
        """Lose all replies to users."""
        self._zk.network.cut(USERS_MACHINE, requests=False)
        return lambda: self._zk.network.heal(USERS_MACHINE)
