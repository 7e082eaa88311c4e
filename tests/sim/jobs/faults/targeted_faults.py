"""Faults at the moment of a transaction: an assignment, a lease, an outcome, a certificate or the release of a name."""

from collections.abc import Callable

from tests.sim.jobs.cluster.job_node import JobNode
from tests.sim.jobs.cluster.machine import SimProcess
from tests.sim.jobs.faults.random_faults import RandomFaults
from tests.sim.jobs.users import USERS_MACHINE
from tests.sim.leadership.agent_node import PATHS
from tests.sim.leadership.oracles import sets_data
from tests.sim.zk.requests import RequestKind, Transaction, TransactionMatch

FAULT_S_MAX = 14.0


def writes_part(part: str, *, by: str, containing: bytes = b"") -> TransactionMatch:
    """Return a matcher for transactions that write this part of a job, by a process whose name contains `by`."""

    def matches(transaction: Transaction) -> bool:
        if by not in transaction.process:
            return False
        for operation in transaction.operations:
            data = getattr(operation, "data", None)
            if data is not None and operation.path.startswith(PATHS.jobs) and operation.path.endswith(f"/{part}"):
                return containing in data
        return False

    return matches


ATTEMPT_ASSIGNED = writes_part("attempt", by="/agent")
LEASE_TAKEN = writes_part("report", by="/runner", containing=b'"outcome":null,"dead":false')
OUTCOME_REPORTED = writes_part("report", by="/runner", containing=b'"dead":true')
DEATH_CERTIFIED = writes_part("report", by="/agent")
LEASE_RENEWED = writes_part("lease", by="/runner")
STATE_WRITTEN = writes_part("state", by="/agent")
DESIRED_SET = writes_part("desired", by=f"{USERS_MACHINE}/")
JOB_SUBMITTED = writes_part("spec", by=f"{USERS_MACHINE}/")


def releases_name(transaction: Transaction) -> bool:
    return (
        any(operation.path.startswith(PATHS.names) for operation in transaction.operations) and "/agent" in transaction.process
    )


def ends_lease(transaction: Transaction) -> bool:
    """Return True if the transaction ends a session that holds a lease."""
    return transaction.kind is RequestKind.CLOSE and any(path.endswith("/lease") for path in transaction.paths)


class TargetedFaults(RandomFaults):
    def arm_targeted_fault(self) -> None:
        arm_fault = self._random.choice(
            [
                self._fault_at_assignment,
                self._fault_at_assignment,
                self._fault_at_lease,
                self._fault_at_lease,
                self._fault_at_outcome,
                self._fault_at_outcome,
                self._fault_at_certificate,
                self._fault_at_certificate,
                self._fault_at_name_release,
                self._fault_at_lease_renewal,
                self._fault_at_state_write,
                self._fault_at_desired_change,
                self._fault_at_submission,
                self._fault_at_lease_end,
                self._fault_at_lease_end,
                self._fault_at_epoch_change,
                self._block_leader_before_write,
            ]
        )
        self.fault_names.append(arm_fault.__name__)
        arm_fault()

    # Moments

    def _fault_at_assignment(self) -> None:
        self.hook_transaction(ATTEMPT_ASSIGNED, self._disturb_any, skip=self._random.randrange(3))

    def _fault_at_lease(self) -> None:
        self.hook_transaction(LEASE_TAKEN, self._disturb_any, skip=self._random.randrange(3))

    def _fault_at_outcome(self) -> None:
        self._end_an_attempt()
        self.hook_transaction(OUTCOME_REPORTED, self._disturb_any, skip=self._random.randrange(2))

    def _fault_at_certificate(self) -> None:
        self._world.schedule_at(self._random.uniform(4.0, 10.0), self._apply_fault, self._crash_runner, 0.0)
        self.hook_transaction(DEATH_CERTIFIED, self._disturb_any, skip=0)

    def _fault_at_name_release(self) -> None:
        self.hook_transaction(releases_name, self._disturb_any, skip=0)

    def _fault_at_lease_renewal(self) -> None:
        self.hook_transaction(LEASE_RENEWED, self._disturb_any, skip=self._random.randrange(2, 12))

    def _fault_at_state_write(self) -> None:
        self.hook_transaction(STATE_WRITTEN, self._disturb_any, skip=self._random.randrange(4))

    def _fault_at_desired_change(self) -> None:
        self.hook_transaction(DESIRED_SET, self._disturb_any, skip=0)

    def _fault_at_submission(self) -> None:
        self.hook_transaction(JOB_SUBMITTED, self._disturb_any, skip=self._random.randrange(2))

    def _fault_at_lease_end(self) -> None:
        """Pause a runner or power off its node, and disturb a process when the lease ends."""
        self._world.schedule_at(
            self._random.uniform(4.0, 7.0),
            self._apply_fault,
            self._random.choice([self._pause_runner, self._power_off_node]),
            22.0,
        )
        self.hook_transaction(ends_lease, self._disturb_any, skip=0)

    def _block_leader_before_write(self) -> None:
        """Block the leader's requests between a decision and its commit, while the job changes."""
        self._end_an_attempt()
        self.hook_transaction(STATE_WRITTEN, self._block_requests, skip=self._random.randrange(1, 4), before=True)

    def _block_requests(self, transaction: Transaction) -> None:
        node = self._nodes_by_process.get(transaction.process)
        if node is not None:
            self._zk.network.cut(node.name, replies=False)
            self._world.schedule_at(self._world.now_s + self._random.uniform(0.2, 9.0), self._zk.network.heal, node.name)
            self._zk.change_leader()

    def _end_an_attempt(self) -> None:
        """End an attempt, so that the targeted transaction happens."""
        fault = self._random.choice([self._crash_runner, self._crash_runner, self._crash_watchdog, self._power_off_node])
        self._world.schedule_at(self._random.uniform(4.0, 9.0), self._apply_fault, fault, self._random.uniform(10.0, 20.0))

    def hook_transaction(
        self, match: TransactionMatch, action: Callable[[Transaction], None], *, skip: int, before: bool | None = None
    ) -> None:
        """Run the action before or after the matching transaction that follows `skip` matches; None chooses at random."""
        before = self._random.random() < 0.4 if before is None else before
        hook = self._zk.hook_before if before else self._zk.hook_after
        hook(match, lambda transaction: None if self._healed else action(transaction), skip=skip)

    # Victims

    def _disturb_any(self, transaction: Transaction) -> None:
        draw = self._random.random()
        leader = next((node for node in self.job_nodes if node.is_leading()), None)
        if draw < 0.25 and leader is not None:
            self.disturb_node(leader)
        elif draw < 0.35:
            self.disturb_node(self._random.choice(self.job_nodes))
        else:
            self.disturb_sender(transaction)

    def disturb_sender(self, transaction: Transaction) -> None:
        """Disturb the process that sent the transaction, or its node."""
        machine, _, _ = transaction.process.partition("/")
        node = next((node for node in self.job_nodes if node.name == machine), None)
        if node is None:
            self._disturb_users()
            return
        runner = node.machine.find(transaction.process)
        if runner is not None and self._random.random() < 0.6:
            self.disturb_process(runner)
        else:
            self.disturb_node(node)

    def _disturb_users(self) -> None:
        self._zk.network.cut(USERS_MACHINE, requests=self._random.random() < 0.3)
        self._world.schedule_at(self._world.now_s + self._random.uniform(0.1, 6.0), self._zk.network.heal, USERS_MACHINE)

    def disturb_process(self, process: SimProcess) -> None:
        match self._random.randrange(4):
            case 0 | 1:
                # A kill is a kernel action, so it must not run inside the transaction.
                self._world.schedule_at(self._world.now_s, self.kill_process, process)
            case 2:
                self.undo_later(self.suspend_process(process))
            case _:
                self.undo_later(self.suspend_process(process, hang=True))

    def disturb_node(self, node: JobNode) -> None:
        name = node.name
        match self._random.randrange(9):
            case 0 | 1:
                self._world.schedule_at(self._world.now_s, node.crash)
            case 2:
                self._world.schedule_at(self._world.now_s, node.power_off)
                self.undo_later(lambda: node.start() if node.powered_off else None)
            case 3:
                self.undo_later(self._suspend_agent(node, hang=False))
            case 4:
                node.machine.pause()
                self.undo_later(node.machine.resume)
            case 5 | 6:
                self._zk.network.cut(name)
                self.undo_later(lambda: self._zk.network.heal(name))
            case 7:
                self._zk.network.cut(name, requests=False)
                self.undo_later(lambda: self._zk.network.heal(name))
            case _:
                self._zk.change_leader()

    def undo_later(self, undo: Callable[[], object]) -> None:
        self._world.schedule_at(self._world.now_s + self._random.uniform(0.05, FAULT_S_MAX), undo)

    def _disturb_sender(self, transaction: Transaction) -> None:
        self.disturb_sender(transaction)

    def _fault_at_epoch_change(self) -> None:
        self.hook_transaction(lambda t: sets_data(t.operations, PATHS.epoch), self._disturb_any, skip=self._random.randrange(2))
        self._world.schedule_at(self._random.uniform(4.0, 12.0), self._apply_fault, self._crash_node, 0.0)
