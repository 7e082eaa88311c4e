"""Invariants of drivers, checked at every moment by kernel evidence, and of jobs after all faults are healed."""

import functools
from collections import Counter
from collections.abc import Sequence

from holdfast.model.identifiers import JobId
from holdfast.model.job import Event
from holdfast.node.attempts import AttemptId
from holdfast.node.failsafe.journal_format import JournalContent, decode_journal
from tests.sim.jobs.checks.committed_records import CommittedRecords, JobRecord
from tests.sim.jobs.checks.run_rules import RunRules
from tests.sim.jobs.checks.transaction_rules import TransactionRules
from tests.sim.jobs.cluster.drivers import Driver, DriverEnd
from tests.sim.jobs.cluster.job_node import JobNode, SharedEnvironment
from tests.sim.jobs.cluster.machine import SimMachine
from tests.sim.leadership.agent_node import PATHS, TIMEOUT_S, TIMING
from tests.sim.leadership.oracles import LeadershipOracles
from tests.sim.world import World

SAMPLE_S = 0.25
WAKE_GRACE_S = TIMING.kill_s + 0.1
"""Time for which a driver may run on after its machine resumes past the deadline, because a kill takes time."""
ORPHANED_S_MAX = 2.5
RUNNERS_MAX = 8
"""Maximum number of runners for one attempt. A node may retry, but not in a tight loop."""
CANCELLED_S_MAX = TIMEOUT_S
CLOCK_ERROR_S = 1e-6


@functools.lru_cache(16)
def _decode_journal(data: bytes) -> JournalContent:
    """Decode a journal of promises. The periodic checks read each journal several times before it changes."""
    return decode_journal(data)


class JobOracles(LeadershipOracles):
    """Oracles of jobs and drivers, in addition to those of leadership and to the rules for transactions."""

    def __init__(self, world: World, nodes: Sequence[JobNode], environment: SharedEnvironment) -> None:
        self.epoch_taken_s = 0.0
        self.records = CommittedRecords(world)
        self._drivers = environment.drivers
        self._storage = environment.storage
        self._machines = {node.name: node.machine for node in nodes}
        self._runners_started: Counter[tuple[JobId, int]] = Counter()
        self._orphaned_s: dict[Driver, float] = {}
        self._unsupervised: set[Driver] = set()
        self.must_not_start: set[JobId] = set()
        """Jobs restored in part by hand; they must never start."""
        self.leases_removed_by_operator = False
        """True if an operator expires sessions or deletes leases. Then only the margin prevents two drivers at once."""
        self.older_copy_restored = False
        """True if an operator has restored an older copy of ZooKeeper's data. No node may act on it."""
        super().__init__(world, nodes)
        self.runs = RunRules(world, self.records, environment.storage, self._report_violation)
        self.rules = TransactionRules(world, self.records, environment.drivers, self, self._report_violation)
        environment.drivers.on_start.append(self._check_driver_start)
        for node in nodes:
            node.on_runner_start = (*node.on_runner_start, self._check_runner_start)
            node.on_event = self.check_event
            node.machine.on_resume.append(self._check_resumed_machine)
        world.schedule_at(SAMPLE_S, self._sample_drivers)

    def epoch_session(self) -> int:
        """Return the session that won the newest epoch."""
        return self._epoch_sessions.get(self.epoch, 0)

    def _check_new_epoch(self, version: int, session: int, process: str) -> None:
        self.epoch_taken_s = self._world.now_s
        super()._check_new_epoch(version, session, process)

    # Starts

    def _check_runner_start(self, node: JobNode, attempt_id: AttemptId) -> None:
        """Invariant 24: a node starts a runner only for an attempt that a state assigned to it, in data that it recognizes."""
        record = self.records.get(attempt_id.job)
        self._runners_started[attempt_id.job, attempt_id.attempt] += 1
        if self._runners_started[attempt_id.job, attempt_id.attempt] > RUNNERS_MAX:
            self._report_violation(
                f"{node.name} started more than {RUNNERS_MAX} runners for attempt {attempt_id.attempt} of {attempt_id.job}"
            )
        if self.older_copy_restored:
            self._report_violation(f"{node.name} started a runner for {attempt_id.job} from an older copy of ZooKeeper's data")
        if (attempt_id.attempt, node.name) not in record.assigned_attempts:
            self._report_violation(
                f"{node.name} started a runner for attempt {attempt_id.attempt} of {attempt_id.job}, which it was not assigned"
            )

    def _check_driver_start(self, driver: Driver) -> None:
        record = self.records.get(driver.job)
        for other in self._drivers.list_alive(driver.job):
            if other is not driver:
                self._check_overlap(other, driver)
        earlier = [each.attempt for each in self._drivers.list_of_job(driver.job) if each is not driver]
        if earlier and max(earlier) >= driver.attempt:
            self._report_violation(f"{driver} was started after attempt {max(earlier)}")
        if record.was_final:
            self._report_violation(f"{driver} was started after the job had ended")
        if driver.job in self.must_not_start:
            self._report_violation(f"{driver} was started, but the job was never submitted")
        if record.tampered:
            return
        if record.state is None:
            self._report_violation(f"{driver} was started, but the job has no state")
        if driver.nonce in record.certified_nonces:
            self._report_violation(f"{driver} was started after it was certified dead")
        if record.cancelled_s is not None and self._world.now_s > record.cancelled_s + CANCELLED_S_MAX:
            self._report_violation(
                f"{driver} was started {self._world.now_s - record.cancelled_s:.1f} s after the job was cancelled"
            )
        self._check_lease_or_promises(driver)
        for attempt, outcome in self._storage.outcomes.get(driver.job, {}).items():
            first = self.runs.first_attempt_of_open_run(driver.job)
            if outcome.ending.value == DriverEnd.FINISHED and first <= attempt < driver.attempt:
                self._report_violation(f"{driver} was started after attempt {attempt} had finished the job")

    def check_event(self, job: JobId, event: Event) -> None:
        """Invariant 17: an event that the leader announces is committed."""
        record = self.records.get(job)
        if (event.number, event.phase.value, event.reason) not in record.events and not record.tampered:
            self._report_violation(f"event {event.number} of {job} ({event.reason}) was announced but is not in its state")

    # At most one driver

    def _check_resumed_machine(self, machine: SimMachine) -> None:
        for driver in [each for each in self._drivers.list_alive() if each.machine is machine]:
            for other in self._drivers.list_alive(driver.job):
                if other is not driver:
                    self._check_overlap(driver, other)

    def _check_overlap(self, one: Driver, other: Driver) -> None:
        """Invariants 1 and 2: two drivers of a job are never alive together.

        A paused machine runs nothing. A machine that resumes gets the time that a kill takes.
        """
        if not (one.alive and other.alive) or one.machine.paused or other.machine.paused:
            return
        resumed_drivers = [driver for driver in (one, other) if self._in_wake_grace(driver)]
        if resumed_drivers:
            self._world.schedule_at(resumed_drivers[0].machine.resumed_s + WAKE_GRACE_S, self._check_overlap, one, other)
        else:
            self._report_violation(f"{one} and {other} are alive at the same time")

    def _in_wake_grace(self, driver: Driver) -> bool:
        """Return True if the driver was alive before its machine was paused, and the machine has just resumed."""
        resumed_s = driver.machine.resumed_s
        assert driver.started_s is not None
        return driver.started_s <= resumed_s and self._world.now_s < resumed_s + WAKE_GRACE_S

    # Periodic checks

    def _sample_drivers(self) -> None:
        for driver in self._drivers.list_alive():
            if not driver.machine.paused and not self._in_wake_grace(driver):
                self._check_orphan(driver)
                self._check_lease_or_promises(driver)
        self._world.schedule_at(self._world.now_s + SAMPLE_S, self._sample_drivers)

    def _check_orphan(self, driver: Driver) -> None:
        """Invariant 18: a driver without its runner dies soon, if its watchdog or agent can kill it."""
        runner, watchdog = driver.runner, driver.watchdog
        assert runner is not None and watchdog is not None
        node = next(node for node in self._nodes if node.name == driver.machine.name)
        agent_runs = node.agent is not None and not self._world.process(node.process).stopped
        can_be_killed = not watchdog.alive or not watchdog.process.stopped or agent_runs
        if runner.alive or not can_be_killed:
            self._orphaned_s.pop(driver, None)
            return
        since_s = self._orphaned_s.setdefault(driver, self._world.now_s)
        if self._world.now_s > since_s + ORPHANED_S_MAX:
            self._report_violation(f"{driver} has been alive without its runner for {self._world.now_s - since_s:.1f} s")

    def _check_lease_or_promises(self, driver: Driver) -> None:
        """Check that a driver without a lease has promises of all nodes of its failsafe set."""
        record = self.records.get(driver.job)
        if self.leases_removed_by_operator or record.tampered or self._is_unsupervised(driver):
            return
        lease, report = record.lease, record.report
        if (lease is not None and lease["nonce"] == driver.nonce) or report is None:
            return
        if report["nonce"] != driver.nonce:
            self._report_violation(f"{driver} is alive after attempt {report['attempt']} has reported")
            return
        missing = [node for node in report["failsafe"] if not self._has_promised(node, driver)]
        if missing or not report["failsafe"]:
            self._report_violation(
                f"{driver} is alive without a lease and without a promise of {', '.join(missing) or 'any node'}"
            )

    def _is_unsupervised(self, driver: Driver) -> bool:
        """Return True if runner and watchdog are stopped, or were until the agent killed them."""
        supervisors = [process for process in (driver.runner, driver.watchdog) if process is not None and process.alive]
        if any(not process.process.stopped for process in supervisors):
            self._unsupervised.discard(driver)
        elif supervisors:
            self._unsupervised.add(driver)
        return driver in self._unsupervised

    def may_outlive_deadline(self, driver: Driver) -> bool:
        """Return True if no simulated process can kill the driver at its deadline."""
        return driver.machine.paused or self._in_wake_grace(driver) or self._is_unsupervised(driver)

    def has_unexpired_promise(self, name: str, job: JobId) -> bool:
        """Return True if the node has promised for the job since its last boot, and the promise is in force."""
        machine = self._machines[name]
        try:
            journal = _decode_journal(machine.disk.promises.read_bytes())
        except FileNotFoundError:
            return False
        promise = journal.promises.get(job) if journal.boot == machine.boot else None
        return promise is not None and promise.until > machine.clock.boottime() + CLOCK_ERROR_S

    def _has_promised(self, name: str, driver: Driver) -> bool:
        machine = self._machines[name]
        try:
            journal = _decode_journal(machine.disk.promises.read_bytes())
        except FileNotFoundError:
            return False
        promise = journal.promises.get(driver.job)
        if journal.boot != machine.boot:
            return True  # the node is down, or it must wait one whole period since its boot
        now = machine.clock.boottime()
        return now < journal.no_start_before or (promise is not None and promise.until > now)

    # Final checks

    def unhealthy_jobs(self) -> list[str]:
        """Invariants 6 and 20: return a problem for each job that is not in its expected state after all faults are healed."""
        return [problem for record in self.records.jobs.values() if (problem := self._health_problem(record))]

    def _health_problem(self, record: JobRecord) -> str:
        alive = self._drivers.list_alive(record.id)
        if record.tampered or (record.garbage_collected and not alive):
            return ""
        if record.state is None:
            return f"{record.id} was submitted but has no state" if record.spec is not None else ""
        phase = record.phase
        if record.is_final:
            return f"{record.id} is {phase}, but {alive[0]} is alive" if alive else ""
        if record.desired != "run":
            wanted = "PARKED" if record.desired == "stop" else "CANCELLED"
            return "" if phase == wanted and not alive else f"{record.id} is {phase}, but the desired state is {record.desired}"
        if record.is_scheduled:
            return self.runs.health_problem(record)
        if record.spec is not None and record.spec["arguments"][0] == DriverEnd.DATA_LOSS:
            parked = any(driver.end is DriverEnd.DATA_LOSS for driver in self._drivers.list_of_job(record.id))
            allowed = ("RUNNING", "STARTING", "PARKED") if parked else ("RUNNING", "STARTING")
            return "" if phase in allowed else f"{record.id} is {phase}: {record.state['reason']}"
        fails = record.spec is not None and record.spec["arguments"][0] == DriverEnd.FAILED
        if fails:
            return "" if phase in ("RUNNING", "BACKOFF", "STARTING") else f"{record.id} is {phase}: {record.state['reason']}"
        if phase != "RUNNING" or len(alive) != 1:
            return f"{record.id} is {phase} with {len(alive)} drivers: {record.state['reason']}"
        if alive[0].attempt != record.state["attempt"] or alive[0].machine.name != record.state["node"]:
            return f"the state of {record.id} names attempt {record.state['attempt']}, but {alive[0]} runs"
        return ""

    def check_bounds(self, *, jobs: int) -> None:
        """Invariant 23: znodes, sessions, watches and orders stay bounded."""
        zk = self._world.zk
        nodes = len(self._nodes)
        # A client that gives up a handshake while commits are stalled does not know its session, and tries again.
        known = sum(session.is_known for session in zk.sessions.by_id.values())
        for sessions in (known, len(zk.sessions.by_id) - known):
            if sessions > nodes + jobs + 2:
                self._report_violation(f"{sessions} sessions for {nodes} nodes and {jobs} jobs")
        watches = sum(server.watches for server in zk.servers)
        if watches > nodes * (10 + 4 * jobs) + 4 * jobs:
            self._report_violation(f"{watches} watches for {nodes} nodes and {jobs} jobs")
        orders = sum(len(zk.tree.children(f"{PATHS.orders}/{node}")) for node in zk.tree.children(PATHS.orders))
        if orders > jobs + len(self._nodes) * any(record.tampered for record in self.records.jobs.values()):
            self._report_violation(f"{orders} orders for {jobs} jobs")
        if len(zk.tree.nodes) > 20 + 4 * nodes + 12 * jobs:
            self._report_violation(f"{len(zk.tree.nodes)} znodes for {nodes} nodes and {jobs} jobs")

    def report_violation(self, sentence: str) -> None:
        self._report_violation(sentence)

    def job_record(self, id: JobId) -> JobRecord:
        return self.records.get(id)
