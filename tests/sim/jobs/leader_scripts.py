"""What goes wrong by a script, between a leader and what it decides."""

from holdfast.model.codec import encode
from holdfast.model.job import Desired, Wanted
from tests.sim.jobs.aims import ORDER, SETTLED, lease_end
from tests.sim.jobs.lease_scripts import LeaseScripts
from tests.sim.nodes import PATHS
from tests.sim.zk.request import Transaction


class LeaderScripts(LeaseScripts):
    def epoch_meanwhile(self) -> None:
        """The next epoch begins between the leader's decision and the commit of what it decided."""
        command = ORDER if self._random.random() < 0.5 else SETTLED
        self.at(command, lambda _: self._scribble_on_the_epoch(), skip=self._random.randrange(4), before=True)

    def word_meanwhile(self) -> None:
        """A person says something between the leader's decision and the commit of what it decided, or just after that."""

        def strike(transaction: Transaction) -> None:
            job = next(each.path.split("/")[-2] for each in transaction.operations if each.path.startswith(PATHS.jobs))
            word = self._random.choice([Desired.CANCEL, Desired.CANCEL, Desired.STOP])
            self._zk.write(PATHS.job(job, "desired"), encode(Wanted(word)), by="people/0")  # type: ignore[arg-type]

        command = ORDER if self._random.random() < 0.7 else SETTLED
        self.at(command, strike, skip=self._random.randrange(3), before=self._random.random() < 0.6)

    def hung_undertaker(self) -> None:
        """An agent hangs between reading a report and certifying the death, until the next attempt has reported."""
        self._world.at(self._random.uniform(4.5, 5.5), self._hang_the_undertaker)

    def _hang_the_undertaker(self) -> None:
        driver = self.driver()
        if driver is None or self._over:
            return
        node = self.node_of(driver)
        for other in self.job_nodes:
            self.around.lan.cut(node.name, other.name)
        self.kill_process(driver.runner)
        length_s = self._random.uniform(16.5, 18.0)

        def strike(process: str, path: str) -> None:
            if process == node.process and path.endswith(f"/{driver.job}/report") and not self._over:
                self._zk.on_read = None
                self.after(0.0, lambda: self.after(length_s, self._stop(node, hang=True)))

        self._zk.on_read = strike

    def leader_dies_in_the_margin(self) -> None:
        """A machine is lost; when its lease is gone and the margin has begun, the leader dies too."""
        self._world.at(self._random.uniform(4.5, 6.0), self._lose_a_driver)

    def _lose_a_driver(self) -> None:
        driver, leader = self.driver(), self.leader()
        if driver is None or self._over:
            return
        self.node_of(driver).lose()
        if leader is not None and leader.machine is driver.machine:
            return

        def crash(_: Transaction) -> None:
            self.after(self._random.uniform(0.1, 3.5), self._start, self._crash_leader, 0.0)

        self._zk.after(lease_end, crash)

    def _crash_leader(self) -> None:
        leader = self.leader()
        if leader is not None:
            leader.crash()

    def expel(self) -> None:
        """Somebody ends the session of a runner, or deletes its lease, while all is well: only the margin keeps
        drivers apart."""
        self.job_oracles.lease_may_vanish = True
        driver = self.driver()
        if driver is None:
            return
        record = self.job_oracles.job(driver.job)
        if self._random.random() < 0.5 and record.lease_session:
            self._zk.expire(record.lease_session)
        else:
            self._zk.remove(PATHS.job(driver.job, "lease"))
        if self._random.random() < 0.6:
            self.after(self._random.uniform(0.0, 3.0), self._start, self._crash_leader, 0.0)
