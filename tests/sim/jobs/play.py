"""How a schedule goes: who is there, which jobs, what happens to them, and what is asked in the end."""

import random
from collections.abc import Callable

from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec
from tests.sim.jobs.drivers import Behaviour, Driver, Drivers, End
from tests.sim.jobs.failsafe_scripts import Scripts
from tests.sim.jobs.node import JobNode, Kit, Surroundings
from tests.sim.jobs.oracles import JobOracles
from tests.sim.jobs.peers import Lan
from tests.sim.jobs.people import People
from tests.sim.nodes import TIMEOUT_S
from tests.sim.world import Stuck, World

FAULTS_UNTIL_S = 24.0
HEALTHY_WITHIN_S = 45.0
STAYS_HEALTHY_S = 2.0
SAMPLE_S = 0.25


class Play:
    def __init__(self, world: World, kind: str, kit: Kit, rng: random.Random) -> None:
        self.world = world
        self.kind = kind
        self.random = rng
        self.around = Surroundings(Drivers(), kit.storage(world), Lan(world), kit)
        self.nodes = [JobNode(world, name, self.around, slots=slots) for name, slots in self._machines()]
        self.oracles = JobOracles(world, self.nodes, self.around)
        self.people = People(world, kit, self.oracles)
        self.faults = Scripts(world, self.nodes, self.around, self.oracles, random.Random(f"{world.seed}/faults"))
        self.jobs: list[JobId] = []
        self.until_s = FAULTS_UNTIL_S
        self.restart_s: float | None = None
        self._healthy = False

    def _machines(self) -> list[tuple[str, int]]:
        """With room for all jobs, if all are there."""
        if self.kind not in ("storm", "handover"):
            return [("n1", 3), ("n2", 3), ("n3", 3)]
        if self.random.random() < 0.25:
            return [("n1", 2), ("n2", self.random.randrange(1, 4))]
        return [(name, self.random.randrange(1, 4)) for name in ("n1", "n2", "n3")]

    def perform(self, happen: Callable[["Play"], None], *, lives: bool) -> None:
        for node in self.nodes:
            self.world.at(self.random.uniform(0, 0.5), node.start)
        happen(self)
        self.world.run_for(max(0.0, self.until_s - self.world.now_s))
        self.faults.heal_all()
        if lives:
            self._recover()
        self.people.verdict()
        self.oracles.verdict()

    # Jobs

    def new_jobs(self, count: int, make: Callable[[], Behaviour], until_s: float) -> None:
        for _ in range(count):
            self.new_job(self.random.uniform(0.5, until_s), make())

    def new_job(self, at_s: float, behaviour: Behaviour, restart: str = "") -> None:
        number = len(self.jobs) + 1
        job = JobId(f"j{number}")
        self.jobs.append(job)
        if not restart:
            restart = "fixed:2:2s" if behaviour.end is End.FAILED and self.random.random() < 0.7 else "exponential"
        spec = Spec(f"name{number}", "job.py", "0" * 64, restart=restart, arguments=behaviour.arguments())
        self.people.submit(at_s, spec, job, f"r{number}")
        if self.random.random() < 0.4:
            again_s = at_s + self.random.choice([0.0, 0.01, 1.0])
            self.people.submit(again_s, spec, JobId(f"{job}b"), f"r{number}", crash=self.random.random() < 0.5)

    def any_behaviour(self) -> Behaviour:
        rng = self.random
        end = rng.choice([None, None, None, None, End.FINISHED, End.FAILED, End.DATA_LOSS])
        return Behaviour(end, rng.uniform(0.2, 12.0), rng.uniform(0.05, 2.0) if rng.random() < 0.8 else 100.0)

    def forever(self) -> Behaviour:
        return Behaviour(None, 0.0, self.random.uniform(0.05, 2.0))

    def finishing(self) -> Behaviour:
        return Behaviour(End.FINISHED, self.random.uniform(1.0, 6.0), 1.0)

    def some_words(self, probability: float) -> None:
        for job in self.jobs:
            if self.random.random() < probability:
                at_s = self.random.uniform(3.0, FAULTS_UNTIL_S)
                desired = self.random.choice([Desired.STOP, Desired.CANCEL, Desired.CANCEL, Desired.RUN])
                self.people.say(at_s, job, desired, again=True)
                if self.random.random() < 0.5:
                    self.people.say(at_s + self.random.uniform(0.0, 8.0), job, Desired.RUN, again=True)

    def settled(self, count: int | None = None) -> list[Driver]:
        """Jobs that run for ever, all of them running: their drivers."""
        for node in self.nodes:
            node.be_impatient()
        self.new_jobs(count or self.random.randrange(1, 4), self.forever, 2.0)
        self.world.at(4.0, self._sample)
        self.world.run_until(lambda: self._healthy, within_s=10.0, what="a cluster in which every job runs")
        return self.around.drivers.living()

    def unharmed(self, before: list[Driver], what: str) -> None:
        """Nothing has ended, and nothing ends for a whole session timeout after the last fault either."""
        self.world.run_for(max(0.0, FAULTS_UNTIL_S - self.world.now_s))
        self.world.run_for(TIMEOUT_S)
        for driver in before:
            if not driver.alive:
                self.oracles.violated(f"{driver} ended because {what}")

    def follow(self, scripts: list[Callable[[], None]]) -> None:
        script = self.random.choice(scripts)
        self.faults.names.append(script.__name__)
        script()

    # In the end

    def _recover(self) -> None:
        """Invariants 20 and 23."""
        self._healthy = False
        self.world.at(self.world.now_s + SAMPLE_S, self._sample)
        try:
            self.world.run_until(lambda: self._healthy, within_s=HEALTHY_WITHIN_S)
        except Stuck:
            raise Stuck("; ".join(self.oracles.ill()) or "no leader, or a node that did not join again") from None
        self.world.run_for(STAYS_HEALTHY_S)
        self.oracles.bounded(jobs=len(self.jobs))

    def _sample(self) -> None:
        joined = all(node.agent is not None and node.agent.status.registered for node in self.nodes)
        known = len(self.people.submitted) == len(self.jobs) and not self.oracles.ill()
        self._healthy = joined and known and len(self.oracles.claimants()) == 1
        if not self._healthy:
            self.world.at(self.world.now_s + SAMPLE_S, self._sample)
