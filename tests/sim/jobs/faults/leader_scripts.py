"""Scripted faults between a decision of the leader and its commit."""

from holdfast.model.codec import encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord
from tests.sim.jobs.cluster.drivers import Driver
from tests.sim.jobs.faults.lease_scripts import LeaseScripts
from tests.sim.jobs.faults.targeted_faults import ATTEMPT_ASSIGNED, STATE_WRITTEN, ends_lease
from tests.sim.jobs.users import USERS_MACHINE
from tests.sim.leadership.agent_node import PATHS
from tests.sim.zk.requests import Transaction


class LeaderScripts(LeaseScripts):
    def change_epoch_before_commit(self) -> None:
        """Start the next epoch between the leader's decision and its commit."""
        command = ATTEMPT_ASSIGNED if self._random.random() < 0.5 else STATE_WRITTEN
        self.hook_transaction(command, lambda _: self._overwrite_epoch(), skip=self._random.randrange(4), before=True)

    def change_desired_around_commit(self) -> None:
        """Change the desired state between the leader's decision and its commit, or just after the commit."""

        def inject(transaction: Transaction) -> None:
            job = next(JobId(each.path.split("/")[-2]) for each in transaction.operations if each.path.startswith(PATHS.jobs))
            desired = self._random.choice([Desired.CANCEL, Desired.CANCEL, Desired.STOP])
            self._zk.write(PATHS.job(job, "desired"), encode(DesiredRecord(desired)), by=f"{USERS_MACHINE}/0")

        command = ATTEMPT_ASSIGNED if self._random.random() < 0.7 else STATE_WRITTEN
        self.hook_transaction(command, inject, skip=self._random.randrange(3), before=self._random.random() < 0.6)

    def hang_agent_before_certificate(self) -> None:
        """Hang an agent between reading a report and certifying the death, until a forced next attempt has reported."""
        self._world.schedule_at(self._random.uniform(4.5, 5.5), self._hang_certifying_agent)

    def _hang_certifying_agent(self) -> None:
        driver = self.choose_driver()
        if driver is None or self._healed:
            return
        node = self.node_of(driver)
        for other in self.job_nodes:
            self.environment.lan.cut(node.name, other.name)
        self.kill_process(driver.runner)
        length_s = self._random.uniform(16.5, 18.0)

        def inject(process: str, path: str) -> None:
            if process == node.process and path.endswith(f"/{driver.job}/report") and not self._healed:
                self._zk.on_read = None
                self.call_later(0.0, lambda: self.call_later(length_s, self._suspend_agent(node, hang=True)))
                self.call_later(self._random.uniform(1.0, 12.0), self._force_restart, driver.job)

        self._zk.on_read = inject

    def _force_restart(self, job: JobId) -> None:
        """Let a user assert that the last attempt is dead. Otherwise the leader waits for the registered node."""
        if not self._healed:
            path = PATHS.job(job, "desired")
            self._zk.write(path, encode(DesiredRecord(Desired.RUN, force=True)), by=f"{USERS_MACHINE}/0")

    def crash_leader_within_margin(self) -> None:
        """Power off a driver's machine. When its lease is gone and the margin has begun, crash the leader."""
        self._world.schedule_at(self._random.uniform(4.5, 6.0), self._power_off_driver_machine)

    def _power_off_driver_machine(self) -> None:
        driver, leader = self.choose_driver(), self.leader()
        if driver is None or self._healed:
            return
        self.node_of(driver).power_off()
        if leader is not None and leader.machine is driver.machine:
            return

        def crash(_: Transaction) -> None:
            self.call_later(self._random.uniform(0.1, 3.5), self._apply_fault, self._crash_leader, 0.0)

        self._zk.hook_after(ends_lease, crash)

    def _crash_leader(self) -> None:
        leader = self.leader()
        if leader is not None:
            leader.crash()

    def remove_lease(self) -> None:
        """End the session of a healthy runner, or delete its lease: only the margin then prevents two drivers at once."""
        self.job_oracles.leases_removed_by_operator = True
        driver = self.choose_driver()
        if driver is None:
            return
        record = self.job_oracles.job_record(driver.job)
        if self._random.random() < 0.5 and record.lease_session:
            self._zk.expire(record.lease_session)
        else:
            self._zk.remove(PATHS.job(driver.job, "lease"))
        if self._random.random() < 0.6:
            self.call_later(self._random.uniform(0.0, 3.0), self._apply_fault, self._crash_leader, 0.0)

    # Stopped runner and watchdog

    def stop_supervision(self) -> None:
        """Stop a runner and its watchdog together, as SIGSTOP to both does. Only the agent can then end the driver."""
        driver = self.choose_driver()
        if driver is None:
            return
        self._stop_runner_and_watchdog(driver)
        node = self.node_of(driver)
        match self._random.randrange(4):
            case 0:
                # The agent restarts at the moment when the leader would ask it.
                if self._random.random() < 0.7:
                    self._lose_quorum_until_promises_end()
                delay_s = self._random.uniform(3.2, 4.2)
                self._zk.hook_after(ends_lease, lambda _: self.call_later(delay_s, node.crash))
            case 1:
                self.call_later(self._random.uniform(8.0, 18.0), self._apply_fault, self._crash_leader, 0.0)
            case _:
                pass

    def _lose_quorum_until_promises_end(self) -> None:
        """Kill two servers until the promises for the stopped runner have run out. Its session then gets a full timeout."""
        for server in (0, 1):
            self._zk.kill(server)
            self.call_later(self._random.uniform(10.0, 16.0), self._zk.restart, server)

    def _stop_runner_and_watchdog(self, driver: Driver) -> None:
        for process in (driver.runner, driver.watchdog):
            if process is not None and process.alive and not process.process.stopped:
                self._world.record("pause", process.name)
                self._world.loop.pause(process.process)

    def stop_supervision_and_agent(self) -> None:
        """Stop a runner, its watchdog and the agent until another leader has given the attempt up, then resume the agent."""
        driver = self.choose_driver()
        if driver is not None:
            self._stop_runner_and_watchdog(driver)
            self.suspend_agent_for(self.node_of(driver), self._random.uniform(17.0, 24.0), hang=False)
