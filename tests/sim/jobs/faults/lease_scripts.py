"""Scripted faults between a runner, its lease and its driver.

Each script creates a situation in which a single rule prevents two drivers at once.
"""

from collections.abc import Callable

from holdfast.model.identifiers import JobId
from tests.sim.jobs.cluster.drivers import Driver
from tests.sim.jobs.cluster.job_node import JobNode
from tests.sim.jobs.cluster.machine import SimMachine, SimProcess
from tests.sim.jobs.faults.targeted_faults import LEASE_RENEWED, LEASE_TAKEN, TargetedFaults
from tests.sim.zk.requests import Transaction


def takes_later_lease(transaction: Transaction) -> bool:
    """Return True if the transaction takes a lease for the second or a later attempt of a job."""
    return LEASE_TAKEN(transaction) and "-1." not in transaction.process


class LeaseScripts(TargetedFaults):
    # Shared helpers

    def call_later(self, delay_s: float, action: Callable[..., object], *args: object) -> None:
        self._world.schedule_at(self._world.now_s + delay_s, action, *args)

    def process_of(self, transaction: Transaction) -> SimProcess | None:
        for node in self.job_nodes:
            if (process := node.machine.find(transaction.process)) is not None:
                return process
        return None

    def cut_lan_of(self, name: str) -> None:
        if not self._healed:
            for node in self.job_nodes:
                self.environment.lan.cut(name, node.name)

    def heal_lan_of(self, name: str) -> None:
        for node in self.job_nodes:
            self.environment.lan.heal(name, node.name)

    def power_on(self, node: JobNode) -> None:
        if node.powered_off:
            node.start()

    def suspend_agent_for(self, node: JobNode, length_s: float, *, hang: bool) -> None:
        self.call_later(length_s, self._suspend_agent(node, hang=hang))

    def leader(self) -> JobNode | None:
        return next((node for node in self.job_nodes if node.is_leading()), None)

    # Heartbeats

    def delay_renewal_reply(self) -> None:
        """Delay the reply to a heartbeat, and block all later requests."""
        delay_s = self._random.uniform(2.0, 9.0)

        def inject(transaction: Transaction) -> None:
            name = transaction.process.partition("/")[0]
            self._zk.network.delay_replies(name, delay_s)
            self._zk.network.cut(name, replies=False)
            self.cut_lan_of(name)

        self.hook_transaction(LEASE_RENEWED, inject, skip=self._random.randrange(2, 8), before=False)

    def pause_after_renewal(self) -> None:
        """Pause a runner when its heartbeat is committed, and cut it off when it resumes: it then reads an old reply."""
        pause_s = self._random.uniform(0.5, 9.5)

        def inject(transaction: Transaction) -> None:
            process = self.process_of(transaction)
            if process is not None:
                name = process.machine.name
                resume = self.suspend_process(process)
                self.call_later(pause_s - 0.1, self._zk.network.cut, name)
                self.call_later(pause_s - 0.1, self.cut_lan_of, name)
                self.call_later(pause_s, resume)

        self.hook_transaction(LEASE_RENEWED, inject, skip=self._random.randrange(1, 8), before=False)

    def isolate_server_of_runner(self) -> None:
        """Cut the runner's only reachable server off from the ensemble: that server still answers reads from old data."""
        self._world.schedule_at(self._random.uniform(5.0, 8.0), self._leave_one_server)

    def _leave_one_server(self) -> None:
        driver, followers = self.choose_driver(), self._zk.followers
        if driver is None or not followers or self._healed:
            return
        name, last = driver.machine.name, self._random.choice(followers)
        for server in range(len(self._zk.servers)):
            if server != last:
                self._zk.network.cut(name, server)
        self.cut_lan_of(name)
        # Wait until the runner has connected to its only reachable server.
        self.call_later(self._random.uniform(1.0, 4.0), lambda: None if self._healed else self._zk.cut(last))

    def reconnect_before_expiry(self) -> None:
        """Reconnect a runner whose driver runs on promises just before its session expires.

        Its next heartbeat is committed but does not extend the session.
        """

        def inject(transaction: Transaction) -> None:
            name = transaction.process.partition("/")[0]
            self._zk.network.cut(name)
            self.cut_lan_of(name)
            if self._random.random() < 0.7:
                # Promises from before the cut last until just after the reconnection, and end before a deadline that trusts it.
                reconnect_s = self._random.uniform(8.2, 9.9)
            else:
                reconnect_s = self._random.uniform(8.7, 10.8)
                self.call_later(self._random.uniform(4.3, 5.6), self.heal_lan_of, name)
                self.call_later(6.3, self.cut_lan_of, name)
            self.call_later(reconnect_s, self._zk.network.heal, name)
            self.call_later(
                reconnect_s + self._random.uniform(0.2, 1.5), lambda: None if self._healed else self._zk.network.cut(name)
            )

        for node in self.job_nodes:
            self.heal_lan_of(node.name)  # without promises, the driver would be dead before the reconnection
        self.hook_transaction(LEASE_RENEWED, inject, skip=self._random.randrange(2, 6), before=False)

    # Start of the driver

    def pause_during_start(self) -> None:
        """Pause a process between taking the lease and starting the driver, until the lease is long gone."""

        def inject(transaction: Transaction) -> None:
            process = self.process_of(transaction)
            if process is None:
                return
            delay_s, name = self._random.uniform(0.0, 0.3), process.machine.name
            self.call_later(delay_s, self._suspend_starting_process, process)
            if self._random.random() < 0.5:
                self.call_later(delay_s, self._zk.network.cut, name)
                self.undo_later(lambda: self._zk.network.heal(name))

        self.hook_transaction(LEASE_TAKEN, inject, skip=self._random.randrange(2), before=False)

    def _suspend_starting_process(self, runner: SimProcess) -> None:
        machine = runner.machine
        watchdogs = [each.process for each in machine.watchdogs.values() if each.process.alive]
        length_s = self._random.uniform(1.0, 18.0)
        match self._random.randrange(3):
            case 0 if watchdogs:
                self.call_later(length_s, self.suspend_process(watchdogs[-1]))
            case 1:
                machine.pause()
                self.call_later(length_s, machine.resume)
            case _:
                self.call_later(length_s, self.suspend_process(runner))

    def kill_runner_at_fork(self) -> None:
        """Kill the runner just after the watchdog has forked, before the child becomes the driver."""

        def inject(driver: Driver) -> None:
            if self._healed or self._random.random() < 0.3:
                return
            self.environment.drivers.on_fork = lambda _: None
            if self._random.random() < 0.6:
                self.call_later(self._random.uniform(5.0, 15.0), self.suspend_process(driver.watchdog))
            self.call_later(0.0, self.kill_process, driver.runner)

        self.environment.drivers.on_fork = inject

    def delay_lease_request(self) -> None:
        """Hang a runner just before it takes the lease, and resume it around the leader's start timeout."""
        crash_agent, hung = self._random.random() < 0.5, [False]

        def inject(process: str, path: str) -> None:
            if "/runner-" not in process or not path.endswith("/spec") or hung[0] or self._healed:
                return
            # The runner has read all records and is about to write.
            hung[0] = True
            node = next(node for node in self.job_nodes if process.startswith(f"{node.name}/"))
            self._hang_until_start_timeout(node.machine.find(process), path.replace("/spec", "/report"))
            if crash_agent:
                # For a node that is gone, the leader waits only for the margin.
                self.call_later(0.3, self._keep_agent_down, node)

        self._zk.on_read = inject

    def _keep_agent_down(self, node: JobNode) -> None:
        """Crash the agent and keep it down for a while. Its guard closes the session as usual."""
        session, node.session, node.agent = node.session, None, None
        self._world.crash(node.process)
        if session is not None:
            self._zk.close_session(session)
        self.call_later(12.0, lambda: node.start() if node.agent is None and not node.powered_off else None)

    def _hang_until_start_timeout(self, runner: SimProcess | None, report: str) -> None:
        """Hang the runner until the leader has given up the attempt and reads the report again for the next decision."""
        resume = self.suspend_process(runner, hang=True)
        delay_s = self._random.choice([0.0, 0.0, 0.002, 0.01, 0.05])

        def resume_after_read(process: str, path: str) -> None:
            if process.endswith("/agent") and path == report:
                self._zk.on_read = None
                self.call_later(delay_s, resume)

        def gives_up_attempt(transaction: Transaction) -> bool:
            return any(b"never started" in getattr(each, "data", b"") for each in transaction.operations)

        self._zk.hook_after(gives_up_attempt, lambda _: setattr(self._zk, "on_read", resume_after_read))

    def pause_machine_at_start_request(self) -> None:
        """Pause the machine when its watchdog gets the start request, until the lease is long gone."""

        def inject(machine: SimMachine) -> None:
            if not self._healed:
                self.environment.drivers.on_start_request = lambda _: None
                machine.pause()
                self.call_later(self._random.uniform(5.0, 18.0), machine.resume)

        self.environment.drivers.on_start_request = inject

    # End of the driver

    def lose_runner_after_outcome(self) -> None:
        """Kill the runner of a finished driver before ZooKeeper knows the outcome."""

        def inject(job: JobId) -> None:
            for driver in self.environment.drivers.list_of_job(job):
                if self._healed or driver.runner is None or not driver.runner.alive:
                    continue
                node = self.node_of(driver)
                if self._random.random() < 0.5:
                    self.call_later(0.0, node.power_off)
                    self.call_later(self._random.uniform(12.0, 16.0), self.power_on, node)
                else:
                    self._zk.network.cut(node.name)
                    self.call_later(0.1, self.kill_process, driver.runner)
                    self.call_later(self._random.uniform(12.0, 16.0), self._zk.network.heal, node.name)
                return

        self.environment.storage.on_outcome = inject
        if self._random.random() < 0.4:
            # Kill the runner of the next attempt too, as soon as it has the lease and before it reads the checkpoint.
            self.hook_transaction(
                takes_later_lease,
                lambda transaction: self.call_later(0.0, self.kill_process, self.process_of(transaction)),
                skip=0,
            )
