"""What goes wrong at the very moments when something changes hands: an order, a lease, an outcome, a certificate, a name."""

from collections.abc import Callable

from tests.sim.jobs.faults import JobFaults
from tests.sim.jobs.machine import SimProcess
from tests.sim.jobs.node import JobNode
from tests.sim.nodes import PATHS
from tests.sim.oracles import writes
from tests.sim.zk.request import Kind, Transaction

Match = Callable[[Transaction], bool]
LONGEST_S = 14.0


def sets_part(part: str, *, by: str, containing: bytes = b"") -> Match:
    """A transaction of an agent or a runner that writes this part of some job."""

    def matches(transaction: Transaction) -> bool:
        if by not in transaction.process:
            return False
        for operation in transaction.operations:
            data = getattr(operation, "data", None)
            if data is not None and operation.path.startswith(PATHS.jobs) and operation.path.endswith(f"/{part}"):
                return containing in data
        return False

    return matches


ORDER = sets_part("attempt", by="/agent")
LEASE = sets_part("report", by="/runner", containing=b'"outcome":null,"dead":false')
OUTCOME = sets_part("report", by="/runner", containing=b'"dead":true')
CERTIFICATE = sets_part("report", by="/agent")
HEARTBEAT = sets_part("lease", by="/runner")
SETTLED = sets_part("state", by="/agent")
WORD = sets_part("desired", by="people/")
SUBMISSION = sets_part("spec", by="people/")


def release(transaction: Transaction) -> bool:
    return (
        any(operation.path.startswith(PATHS.names) for operation in transaction.operations) and "/agent" in transaction.process
    )


def lease_end(transaction: Transaction) -> bool:
    """The end of a session that holds a lease."""
    return transaction.kind is Kind.CLOSE and any(path.endswith("/lease") for path in transaction.paths)


class JobAims(JobFaults):
    def aimed_one(self) -> None:
        aim = self._random.choice(
            [
                self._at_an_order,
                self._at_an_order,
                self._at_a_lease,
                self._at_a_lease,
                self._at_an_outcome,
                self._at_an_outcome,
                self._at_a_certificate,
                self._at_a_certificate,
                self._at_a_release,
                self._at_a_heartbeat,
                self._at_a_settlement,
                self._at_a_word,
                self._at_a_submission,
                self._at_the_end_of_a_lease,
                self._at_the_end_of_a_lease,
                self._at_the_ascent,
                self._between_seeing_and_deciding,
            ]
        )
        self.names.append(aim.__name__)
        aim()

    # Where

    def _at_an_order(self) -> None:
        self.at(ORDER, self._hurt_somebody, skip=self._random.randrange(3))

    def _at_a_lease(self) -> None:
        self.at(LEASE, self._hurt_somebody, skip=self._random.randrange(3))

    def _at_an_outcome(self) -> None:
        self._stir()
        self.at(OUTCOME, self._hurt_somebody, skip=self._random.randrange(2))

    def _at_a_certificate(self) -> None:
        self._world.at(self._random.uniform(4.0, 10.0), self._start, self._crash_runner, 0.0)
        self.at(CERTIFICATE, self._hurt_somebody, skip=0)

    def _at_a_release(self) -> None:
        self.at(release, self._hurt_somebody, skip=0)

    def _at_a_heartbeat(self) -> None:
        self.at(HEARTBEAT, self._hurt_somebody, skip=self._random.randrange(2, 12))

    def _at_a_settlement(self) -> None:
        self.at(SETTLED, self._hurt_somebody, skip=self._random.randrange(4))

    def _at_a_word(self) -> None:
        self.at(WORD, self._hurt_somebody, skip=0)

    def _at_a_submission(self) -> None:
        self.at(SUBMISSION, self._hurt_somebody, skip=self._random.randrange(2))

    def _at_the_end_of_a_lease(self) -> None:
        """A runner that was paused or cut off, and everyone who hears of it."""
        self._world.at(
            self._random.uniform(4.0, 7.0), self._start, self._random.choice([self._pause_runner, self._lose_node]), 22.0
        )
        self.at(lease_end, self._hurt_somebody, skip=0)

    def _between_seeing_and_deciding(self) -> None:
        """The leader has looked at a job and is about to write what it has decided; meanwhile the job changes."""
        self._stir()
        self.at(SETTLED, self._hold_up, skip=self._random.randrange(1, 4), before=True)

    def _hold_up(self, transaction: Transaction) -> None:
        node = self._by_process.get(transaction.process)
        if node is not None:
            self._zk.network.cut(node.name, replies=False)
            self._world.at(self._world.now_s + self._random.uniform(0.2, 9.0), self._zk.network.heal, node.name)
            self._zk.change_leader()

    def _stir(self) -> None:
        """So that something changes hands at all."""
        fault = self._random.choice([self._crash_runner, self._crash_runner, self._crash_watchdog, self._lose_node])
        self._world.at(self._random.uniform(4.0, 9.0), self._start, fault, self._random.uniform(10.0, 20.0))

    def at(self, match: Match, action: Callable[[Transaction], None], *, skip: int, before: bool | None = None) -> None:
        before = self._random.random() < 0.4 if before is None else before
        hook = self._zk.before if before else self._zk.after
        hook(match, lambda transaction: None if self._over else action(transaction), skip=skip)

    # Whom

    def _hurt_somebody(self, transaction: Transaction) -> None:
        draw = self._random.random()
        leader = next((node for node in self.job_nodes if node.leading()), None)
        if draw < 0.25 and leader is not None:
            self.hurt_node(leader)
        elif draw < 0.35:
            self.hurt_node(self._random.choice(self.job_nodes))
        else:
            self.hurt(transaction)

    def hurt(self, transaction: Transaction) -> None:
        """Whoever made this transaction."""
        machine, _, _ = transaction.process.partition("/")
        node = next((node for node in self.job_nodes if node.name == machine), None)
        if node is None:
            self._hurt_people()
            return
        runner = node.machine.find(transaction.process)
        if runner is not None and self._random.random() < 0.6:
            self.hurt_process(runner)
        else:
            self.hurt_node(node)

    def _hurt_people(self) -> None:
        self._zk.network.cut("people", requests=self._random.random() < 0.3)
        self._world.at(self._world.now_s + self._random.uniform(0.1, 6.0), self._zk.network.heal, "people")

    def hurt_process(self, process: SimProcess) -> None:
        match self._random.randrange(4):
            case 0 | 1:
                # Not from inside the transaction: the kernel takes its own turn.
                self._world.at(self._world.now_s, self.kill_process, process)
            case 2:
                self.later(self.stop_process(process))
            case _:
                self.later(self.stop_process(process, hang=True))

    def hurt_node(self, node: JobNode) -> None:
        name = node.name
        match self._random.randrange(9):
            case 0 | 1:
                self._world.at(self._world.now_s, node.crash)
            case 2:
                self._world.at(self._world.now_s, node.lose)
                self.later(lambda: node.start() if node.lost else None)
            case 3:
                self.later(self._stop(node, hang=False))
            case 4:
                node.machine.pause()
                self.later(node.machine.resume)
            case 5 | 6:
                self._zk.network.cut(name)
                self.later(lambda: self._zk.network.heal(name))
            case 7:
                self._zk.network.cut(name, requests=False)
                self.later(lambda: self._zk.network.heal(name))
            case _:
                self._zk.change_leader()

    def later(self, undo: Callable[[], object]) -> None:
        self._world.at(self._world.now_s + self._random.uniform(0.05, LONGEST_S), undo)

    def _hurt(self, transaction: Transaction) -> None:
        self.hurt(transaction)

    def _at_the_ascent(self) -> None:
        self.at(lambda t: writes(t.operations, PATHS.epoch), self._hurt_somebody, skip=self._random.randrange(2))
        self._world.at(self._random.uniform(4.0, 12.0), self._start, self._crash_node, 0.0)
