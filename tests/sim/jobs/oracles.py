"""What must hold of drivers at every moment, by the kernel's evidence, and of jobs when everything is well again."""

import json
from collections import Counter
from collections.abc import Sequence

from holdfast.model.identifiers import JobId
from holdfast.model.job import Event
from holdfast.node.attempts import AttemptName
from tests.sim.jobs.drivers import Driver, End
from tests.sim.jobs.ledger import JobRecord, Ledger
from tests.sim.jobs.machine import Machine
from tests.sim.jobs.node import JobNode, Surroundings
from tests.sim.jobs.rules import Rules
from tests.sim.nodes import PATHS, TIMEOUT_S, TIMING
from tests.sim.oracles import Oracles
from tests.sim.world import World

SAMPLE_S = 0.25
WAKING_S = TIMING.kill_s + 0.1
"""How long a driver may go on when a machine wakes up behind its deadline: nobody can kill in no time."""
ORPHANED_S_MAX = 2.5
RUNNERS_MAX = 8
"""For one attempt. A node may have to try again, but not as fast as it can."""
CANCELLED_S_MAX = TIMEOUT_S


class JobOracles(Oracles):
    """With those of leadership, and the rules of committed transactions."""

    def __init__(self, world: World, nodes: Sequence[JobNode], around: Surroundings) -> None:
        self.epoch_taken_s = 0.0
        self.ledger = Ledger(world)
        self._drivers = around.drivers
        self._storage = around.storage
        self._machines = {node.name: node.machine for node in nodes}
        self._spawned: Counter[tuple[JobId, int]] = Counter()
        self._orphaned_s: dict[Driver, float] = {}
        self.never: set[JobId] = set()
        """Leftovers: jobs that must not be started."""
        self.lease_may_vanish = False
        """Somebody ends sessions or deletes leases by hand: then only the margin keeps drivers apart."""
        super().__init__(world, nodes)
        self.rules = Rules(world, self.ledger, around.drivers, self, self._violated)
        around.drivers.on_start.append(self._driver_started)
        for node in nodes:
            node.on_runner = (*node.on_runner, self._runner_started)
            node.tell = self.told
            node.machine.on_resume.append(self._machine_woke)
        world.at(SAMPLE_S, self._look)

    def owner(self) -> int:
        """The session that won the newest epoch."""
        return self._owners.get(self.epoch, 0)

    def _epoch_taken(self, version: int, session: int, process: str) -> None:
        self.epoch_taken_s = self._world.now_s
        super()._epoch_taken(version, session, process)

    # When something starts

    def _runner_started(self, node: JobNode, name: AttemptName) -> None:
        """Invariant 24."""
        record = self.ledger.record(name.job)
        self._spawned[name.job, name.attempt] += 1
        if self._spawned[name.job, name.attempt] > RUNNERS_MAX:
            self._violated(f"{node.name} starts one runner after the other for attempt {name.attempt} of {name.job}")
        if (name.attempt, node.name) not in record.launched:
            self._violated(f"{node.name} started a runner for attempt {name.attempt} of {name.job}, which no state gave to it")

    def _driver_started(self, driver: Driver) -> None:
        record = self.ledger.record(driver.job)
        for other in self._drivers.living(driver.job):
            if other is not driver:
                self._together(other, driver)
        earlier = [each.attempt for each in self._drivers.of_job(driver.job) if each is not driver]
        if earlier and max(earlier) >= driver.attempt:
            self._violated(f"{driver} was started after attempt {max(earlier)}")
        if record.ended:
            self._violated(f"{driver} was started, and the job had ended")
        if driver.job in self.never:
            self._violated(f"{driver} was started, and was never submitted")
        if record.touched:
            return
        if record.state is None:
            self._violated(f"{driver} was started, and has no state")
        if driver.nonce in record.certified:
            self._violated(f"{driver} was started after it was certified dead")
        if record.cancelled_s is not None and self._world.now_s > record.cancelled_s + CANCELLED_S_MAX:
            self._violated(f"{driver} was started {self._world.now_s - record.cancelled_s:.1f} s after the job was cancelled")
        self._has_a_lease_or_promises(driver)
        for attempt, outcome in self._storage.outcomes.get(driver.job, {}).items():
            if outcome.ending.value == End.FINISHED and attempt < driver.attempt:
                self._violated(f"{driver} was started, and attempt {attempt} had finished the job")

    def told(self, job: JobId, event: Event) -> None:
        """Invariant 17: what a leader tells has been committed."""
        record = self.ledger.record(job)
        if (event.number, event.phase.value, event.reason) not in record.events and not record.touched:
            self._violated(f"event {event.number} of {job} was told ({event.reason}), and is not in its state")

    # At most one

    def _machine_woke(self, machine: Machine) -> None:
        for driver in [each for each in self._drivers.living() if each.machine is machine]:
            for other in self._drivers.living(driver.job):
                if other is not driver:
                    self._together(driver, other)

    def _together(self, one: Driver, other: Driver) -> None:
        """Invariants 1 and 2. A machine that stands still runs nothing; one that wakes up is given the time to kill."""
        if not (one.alive and other.alive) or one.machine.paused or other.machine.paused:
            return
        waking = [driver for driver in (one, other) if self._is_waking(driver)]
        if waking:
            self._world.at(waking[0].machine.resumed_s + WAKING_S, self._together, one, other)
        else:
            self._violated(f"{one} and {other} live at the same time")

    def _is_waking(self, driver: Driver) -> bool:
        """It lived when its machine fell asleep, and the machine has just woken up. What is started later has no excuse."""
        resumed_s = driver.machine.resumed_s
        assert driver.started_s is not None
        return driver.started_s <= resumed_s and self._world.now_s < resumed_s + WAKING_S

    # Now and then

    def _look(self) -> None:
        for driver in self._drivers.living():
            if not driver.machine.paused and not self._is_waking(driver):
                self._is_no_orphan(driver)
                self._has_a_lease_or_promises(driver)
        self._world.at(self._world.now_s + SAMPLE_S, self._look)

    def _is_no_orphan(self, driver: Driver) -> None:
        """Invariant 18: without its runner it dies soon, if anybody is there to kill it."""
        runner, watchdog = driver.runner, driver.watchdog
        assert runner is not None and watchdog is not None
        node = next(node for node in self._nodes if node.name == driver.machine.name)
        agent = node.agent is not None and not self._world.process(node.process).stopped
        able = not watchdog.alive or not watchdog.process.stopped or agent
        if runner.alive or not able:
            self._orphaned_s.pop(driver, None)
            return
        since_s = self._orphaned_s.setdefault(driver, self._world.now_s)
        if self._world.now_s > since_s + ORPHANED_S_MAX:
            self._violated(f"{driver} has lived without its runner for {self._world.now_s - since_s:.1f} s")

    def _has_a_lease_or_promises(self, driver: Driver) -> None:
        """At the deadline it is dead, or every node of the failsafe set has promised (design §6)."""
        record = self.ledger.record(driver.job)
        if self.lease_may_vanish or record.touched:
            return
        lease, report = record.lease, record.report
        if (lease is not None and lease["nonce"] == driver.nonce) or report is None:
            return
        if report["nonce"] != driver.nonce:
            self._violated(f"{driver} lives while attempt {report['attempt']} has reported")
            return
        unsure = [node for node in report["failsafe"] if not self._promised(node, driver)]
        if unsure or not report["failsafe"]:
            self._violated(f"{driver} lives without a lease, and without a promise of {', '.join(unsure) or 'anybody'}")

    def _promised(self, name: str, driver: Driver) -> bool:
        machine = self._machines[name]
        try:
            promises = json.loads(machine.disk.promises.read_bytes())
        except FileNotFoundError:
            return False
        kept = promises["promises"].get(driver.job)
        if promises["boot"] != machine.boot:
            return True  # it is away, or has to wait for a whole period since it was back
        return kept is not None and kept["until"] > machine.clock.boottime()

    # In the end

    def ill(self) -> list[str]:
        """Invariants 6 and 20: what is not as it should be, long after everything was healed."""
        return [sentence for record in self.ledger.jobs.values() if (sentence := self._illness(record))]

    def _illness(self, record: JobRecord) -> str:
        living = self._drivers.living(record.id)
        if record.touched or (record.swept and not living):
            return ""
        if record.state is None:
            return f"{record.id} was submitted and has no state" if record.spec is not None else ""
        phase = record.phase
        if record.final:
            return f"{record.id} is {phase}, and {living[0]} lives" if living else ""
        if record.desired != "run":
            wanted = "PARKED" if record.desired == "stop" else "CANCELLED"
            return "" if phase == wanted and not living else f"{record.id} is {phase}, and wanted to {record.desired}"
        if record.spec is not None and record.spec["arguments"][0] == End.DATA_LOSS:
            parked = any(driver.end is End.DATA_LOSS for driver in self._drivers.of_job(record.id))
            allowed = ("RUNNING", "STARTING", "PARKED") if parked else ("RUNNING", "STARTING")
            return "" if phase in allowed else f"{record.id} is {phase}: {record.state['reason']}"
        fails = record.spec is not None and record.spec["arguments"][0] == End.FAILED
        if fails:
            return "" if phase in ("RUNNING", "BACKOFF", "STARTING") else f"{record.id} is {phase}: {record.state['reason']}"
        if phase != "RUNNING" or len(living) != 1:
            return f"{record.id} is {phase} with {len(living)} drivers: {record.state['reason']}"
        if living[0].attempt != record.state["attempt"] or living[0].machine.name != record.state["node"]:
            return f"{record.id} is said to run as attempt {record.state['attempt']}, and {living[0]} does"
        return ""

    def bounded(self, *, jobs: int) -> None:
        """Invariant 23."""
        zk = self._world.zk
        nodes = len(self._nodes)
        allowed = nodes + jobs + 2
        if len(zk.sessions.by_id) > allowed:
            self._violated(f"{len(zk.sessions.by_id)} sessions for {nodes} nodes and {jobs} jobs")
        watches = sum(server.watches for server in zk.servers)
        if watches > nodes * (10 + 4 * jobs) + 4 * jobs:
            self._violated(f"{watches} watches for {nodes} nodes and {jobs} jobs")
        orders = sum(len(zk.tree.children(f"{PATHS.orders}/{node}")) for node in zk.tree.children(PATHS.orders))
        if orders > jobs + len(self._nodes) * any(record.touched for record in self.ledger.jobs.values()):
            self._violated(f"{orders} orders for {jobs} jobs")
        if len(zk.tree.nodes) > 20 + 4 * nodes + 12 * jobs:
            self._violated(f"{len(zk.tree.nodes)} znodes for {nodes} nodes and {jobs} jobs")

    def violated(self, sentence: str) -> None:
        self._violated(sentence)

    def job(self, id: JobId) -> JobRecord:
        return self.ledger.record(id)
