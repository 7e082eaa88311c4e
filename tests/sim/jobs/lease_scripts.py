"""What goes wrong by a script, between a runner, its lease and its driver: each script makes the situation in which a
certain rule
is all that keeps two drivers apart."""

from tests.sim.jobs.aims import HEARTBEAT, LEASE, JobAims, Match
from tests.sim.jobs.drivers import Driver
from tests.sim.jobs.machine import Machine, SimProcess
from tests.sim.jobs.node import JobNode
from tests.sim.zk.request import Transaction


def second_lease(transaction: Transaction) -> bool:
    """Of a job that has had an attempt before."""
    return LEASE(transaction) and "-1." not in transaction.process


class LeaseScripts(JobAims):
    # What scripts share

    def after(self, delay_s: float, action: object, *args: object) -> None:
        self._world.at(self._world.now_s + delay_s, action, *args)  # type: ignore[arg-type]

    def process_of(self, transaction: Transaction) -> SimProcess | None:
        for node in self.job_nodes:
            if (process := node.machine.find(transaction.process)) is not None:
                return process
        return None

    def cut_lan_of(self, name: str) -> None:
        if not self._over:
            for node in self.job_nodes:
                self.around.lan.cut(name, node.name)

    def heal_lan_of(self, name: str) -> None:
        for node in self.job_nodes:
            self.around.lan.heal(name, node.name)

    def back(self, node: JobNode) -> None:
        if node.lost:
            node.start()

    def stop_agent(self, node: JobNode, length_s: float, *, hang: bool) -> None:
        self.after(length_s, self._stop(node, hang=hang))

    def crash_at(self, match: Match, node: JobNode) -> None:
        self._zk.after(match, lambda _: self.after(0.0, node.crash))

    def leader(self) -> JobNode | None:
        return next((node for node in self.job_nodes if node.leading()), None)

    # Heartbeats

    def late_reply(self) -> None:
        """The reply to a heartbeat comes late, and what is sent after that heartbeat does not arrive."""
        delay_s = self._random.uniform(2.0, 9.0)

        def strike(transaction: Transaction) -> None:
            name = transaction.process.partition("/")[0]
            self._zk.network.delay_replies(name, delay_s)
            self._zk.network.cut(name, replies=False)
            self.cut_lan_of(name)

        self.at(HEARTBEAT, strike, skip=self._random.randrange(2, 8), before=False)

    def late_look(self) -> None:
        """A runner is paused when its heartbeat was committed, and cut off when it goes on: it finds an old reply."""
        pause_s = self._random.uniform(0.5, 9.5)

        def strike(transaction: Transaction) -> None:
            process = self.process_of(transaction)
            if process is not None:
                name = process.machine.name
                go_on = self.stop_process(process)
                self.after(pause_s - 0.1, self._zk.network.cut, name)
                self.after(pause_s - 0.1, self.cut_lan_of, name)
                self.after(pause_s, go_on)

        self.at(HEARTBEAT, strike, skip=self._random.randrange(1, 8), before=False)

    def lonely_server(self) -> None:
        """A runner's only server is cut off from the ensemble: it answers reads, and knows nothing."""
        self._world.at(self._random.uniform(5.0, 8.0), self._leave_one_server)

    def _leave_one_server(self) -> None:
        driver, followers = self.driver(), self._zk.followers
        if driver is None or not followers or self._over:
            return
        name, last = driver.machine.name, self._random.choice(followers)
        for server in range(len(self._zk.servers)):
            if server != last:
                self._zk.network.cut(name, server)
        self.cut_lan_of(name)
        # Once it has settled on the only server that it can reach.
        self.after(self._random.uniform(1.0, 4.0), lambda: None if self._over else self._zk.cut(last))

    def back_at_the_last_moment(self) -> None:
        """A runner whose driver lives by promises is connected again when its session is about to expire: a heartbeat is still
        committed, and saves nothing."""

        def strike(transaction: Transaction) -> None:
            name = transaction.process.partition("/")[0]
            back_s = self._random.uniform(8.7, 10.8)
            self._zk.network.cut(name)
            self.cut_lan_of(name)
            self.after(self._random.uniform(4.3, 5.6), self.heal_lan_of, name)
            self.after(6.3, self.cut_lan_of, name)
            self.after(back_s, self._zk.network.heal, name)
            self.after(back_s + self._random.uniform(0.2, 1.5), lambda: None if self._over else self._zk.network.cut(name))

        self.at(HEARTBEAT, strike, skip=self._random.randrange(2, 6), before=False)

    # The start

    def pause_at_the_start(self) -> None:
        """Something stands still between the lease and the start of the driver, and goes on when the lease is long gone."""

        def strike(transaction: Transaction) -> None:
            process = self.process_of(transaction)
            if process is None:
                return
            delay_s, name = self._random.uniform(0.0, 0.3), process.machine.name
            self.after(delay_s, self._stop_the_starting, process)
            if self._random.random() < 0.5:
                self.after(delay_s, self._zk.network.cut, name)
                self.later(lambda: self._zk.network.heal(name))

        self.at(LEASE, strike, skip=self._random.randrange(2), before=False)

    def _stop_the_starting(self, runner: SimProcess) -> None:
        machine = runner.machine
        watchdogs = [each.process for each in machine.watchdogs.values() if each.process.alive]
        length_s = self._random.uniform(1.0, 18.0)
        match self._random.randrange(3):
            case 0 if watchdogs:
                self.after(length_s, self.stop_process(watchdogs[-1]))
            case 1:
                machine.pause()
                self.after(length_s, machine.resume)
            case _:
                self.after(length_s, self.stop_process(runner))

    def killed_at_the_fork(self) -> None:
        """The runner dies at the moment when the watchdog has forked, and what is forked is not the driver yet."""

        def strike(driver: Driver) -> None:
            if self._over or self._random.random() < 0.3:
                return
            self.around.drivers.on_fork = lambda _: None
            if self._random.random() < 0.6:
                self.after(self._random.uniform(5.0, 15.0), self.stop_process(driver.watchdog))
            self.after(0.0, self.kill_process, driver.runner)

        self.around.drivers.on_fork = strike

    def late_taker(self) -> None:
        """A runner hangs on its way to the lease, and goes on when the leader has lost its patience, or is about to."""
        gone, hung = self._random.random() < 0.5, [False]

        def strike(process: str, path: str) -> None:
            if "/runner-" not in process or not path.endswith("/spec") or hung[0] or self._over:
                return
            # It has read everything, and is about to write.
            hung[0] = True
            node = next(node for node in self.job_nodes if process.startswith(f"{node.name}/"))
            self._hang_until_given_up(node.machine.find(process), path.replace("/spec", "/report"))
            if gone:
                # Of a node that is gone nothing is waited for but the margin.
                self.after(0.3, self._silence, node)

        self._zk.on_read = strike

    def _silence(self, node: JobNode) -> None:
        """Its agent stays away for a while. Its session is closed as always."""
        session, node.session, node.agent = node.session, None, None
        self._world.crash(node.process)
        if session is not None:
            self._zk.close_session(session)
        self.after(12.0, lambda: node.start() if node.agent is None and not node.lost else None)

    def _hang_until_given_up(self, runner: SimProcess | None, report: str) -> None:
        """Then the leader looks once more, to decide upon the next attempt."""
        go_on = self.stop_process(runner, hang=True)
        delay_s = self._random.choice([0.0, 0.0, 0.002, 0.01, 0.05])

        def look(process: str, path: str) -> None:
            if process.endswith("/agent") and path == report:
                self._zk.on_read = None
                self.after(delay_s, go_on)

        def given_up(transaction: Transaction) -> bool:
            return any(b"never seen alive" in getattr(each, "data", b"") for each in transaction.operations)

        self._zk.after(given_up, lambda _: setattr(self._zk, "on_read", look))

    def paused_at_the_gate(self) -> None:
        """A machine stands still when its watchdog has been told to start the driver, until the lease is long gone."""

        def strike(machine: Machine) -> None:
            if not self._over:
                self.around.drivers.on_gate = lambda _: None
                machine.pause()
                self.after(self._random.uniform(5.0, 18.0), machine.resume)

        self.around.drivers.on_gate = strike

    # The end

    def end_unheard(self) -> None:
        """A driver has finished, and its runner dies before ZooKeeper hears of it."""

        def strike(job: str) -> None:
            for driver in self.around.drivers.of_job(job):  # type: ignore[arg-type]
                if self._over or driver.runner is None or not driver.runner.alive:
                    continue
                node = self.node_of(driver)
                if self._random.random() < 0.5:
                    self.after(0.0, node.lose)
                    self.after(self._random.uniform(12.0, 16.0), self.back, node)
                else:
                    self._zk.network.cut(node.name)
                    self.after(0.1, self.kill_process, driver.runner)
                    self.after(self._random.uniform(12.0, 16.0), self._zk.network.heal, node.name)
                return

        self.around.storage.on_outcome = strike
        if self._random.random() < 0.4:
            # And the runner of the next attempt dies as soon as it has the lease, before it has looked.
            self.at(second_lease, lambda transaction: self.after(0.0, self.kill_process, self.process_of(transaction)), skip=0)
