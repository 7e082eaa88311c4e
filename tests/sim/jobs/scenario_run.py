"""One run of a scenario: the cluster, its jobs and users, faults, and the final checks."""

import random
from collections.abc import Callable

from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec
from holdfast.model.schedule.due_times import CatchUp, Schedule
from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.jobs.cluster.drivers import Behaviour, Driver, DriverEnd, DriverRegistry
from tests.sim.jobs.cluster.job_node import Components, JobNode, SharedEnvironment
from tests.sim.jobs.cluster.peers import Lan
from tests.sim.jobs.faults.failsafe_scripts import FailsafeScripts
from tests.sim.jobs.users import Users
from tests.sim.leadership.agent_node import TIMEOUT_S
from tests.sim.world import SimulatedTimeout, World

FAULTS_UNTIL_S = 24.0
RECOVERY_S_MAX = 45.0
STABLE_S = 2.0
SAMPLE_S = 0.25


class ScenarioRun:
    def __init__(self, world: World, scenario_name: str, components: Components, rng: random.Random) -> None:
        self.world = world
        self.scenario_name = scenario_name
        self.random = rng
        self.environment = SharedEnvironment(DriverRegistry(), components.storage(world), Lan(world), components)
        self.nodes = [JobNode(world, name, self.environment, slots=slots) for name, slots in self._choose_machines()]
        self.oracles = JobOracles(world, self.nodes, self.environment)
        self.users = Users(world, components, self.oracles)
        self.faults = FailsafeScripts(world, self.nodes, self.environment, self.oracles, random.Random(f"{world.seed}/faults"))
        self.jobs: list[JobId] = []
        self.until_s = FAULTS_UNTIL_S
        self.stable_s = STABLE_S
        """Time from the recovery to the check of the bounds."""
        self.restart_s: float | None = None
        self.can_recover = True
        """False if the scenario ends with a fault that only an operator can repair."""
        self._healthy = False

    def _choose_machines(self) -> list[tuple[str, int]]:
        """Return names and slots of the machines. All jobs fit while all machines run."""
        if self.scenario_name == "stopped agent":
            return [("n1", 2), ("n2", 0), ("n3", 0)]  # the next attempt runs on the same node
        if self.scenario_name not in ("storm", "handover"):
            return [("n1", 3), ("n2", 3), ("n3", 3)]
        if self.random.random() < 0.25:
            return [("n1", 2), ("n2", self.random.randrange(1, 4))]
        return [(name, self.random.randrange(1, 4)) for name in ("n1", "n2", "n3")]

    def execute(self, scenario: Callable[["ScenarioRun"], None], *, check_recovery: bool) -> None:
        for node in self.nodes:
            self.world.schedule_at(self.random.uniform(0, 0.5), node.start)
        scenario(self)
        self.world.run_for(max(0.0, self.until_s - self.world.now_s))
        self.faults.heal_all()
        if check_recovery and self.can_recover:
            self._check_recovery()
        self.users.check_acknowledged()
        self.oracles.raise_first_violation()

    # Jobs

    def submit_jobs(self, count: int, make: Callable[[], Behaviour], until_s: float) -> None:
        for _ in range(count):
            self.submit_job(self.random.uniform(0.5, until_s), make())

    def submit_job(self, at_s: float, behaviour: Behaviour, restart: str = "", schedule: Schedule | None = None) -> None:
        number = len(self.jobs) + 1
        job = JobId(f"j{number}")
        self.jobs.append(job)
        if not restart:
            restart = "fixed:2:2s" if behaviour.end is DriverEnd.FAILED and self.random.random() < 0.7 else "exponential"
        # A separate generator keeps the other schedules, whose seeds are recorded, as they are.
        is_default = restart == "exponential" and random.Random(f"{self.world.seed}/{job}/default").random() < 0.5
        spec = Spec(
            *(f"name{number}", "job.py", "0" * 64),
            restart=restart,
            arguments=behaviour.arguments(),
            restart_is_default=is_default,
            schedule=schedule,
        )
        self.users.submit(at_s, spec, job, f"r{number}")
        if self.random.random() < 0.4:
            again_s = at_s + self.random.choice([0.0, 0.01, 1.0])
            self.users.submit(again_s, spec, JobId(f"{job}b"), f"r{number}", crash=self.random.random() < 0.5)

    def submit_scheduled_jobs(self, count: int, until_s: float) -> None:
        """Submit jobs with an interval of a few seconds. Their runs finish, or some of them fail."""
        for _ in range(count):
            end = self.random.choice([DriverEnd.FINISHED, DriverEnd.FINISHED, DriverEnd.FINISHED, DriverEnd.FAILED])
            behaviour = Behaviour(end, self.random.uniform(0.2, 4.0), self.random.uniform(0.05, 1.0))
            schedule = Schedule(
                every_s=self.random.choice([2.0, 3.0, 6.0]),
                catch_up=self.random.choice([CatchUp.NONE, CatchUp.ONE, CatchUp.ALL]),
            )
            restart = self.random.choice(["never", "fixed:1:1s", "exponential"])
            self.submit_job(self.random.uniform(0.5, until_s), behaviour, restart, schedule)

    def random_behaviour(self) -> Behaviour:
        rng = self.random
        end = rng.choice([None, None, None, None, DriverEnd.FINISHED, DriverEnd.FAILED, DriverEnd.DATA_LOSS])
        return Behaviour(end, rng.uniform(0.2, 12.0), rng.uniform(0.05, 2.0) if rng.random() < 0.8 else 100.0)

    def endless_behaviour(self) -> Behaviour:
        return Behaviour(None, 0.0, self.random.uniform(0.05, 2.0))

    def finishing_behaviour(self) -> Behaviour:
        return Behaviour(DriverEnd.FINISHED, self.random.uniform(1.0, 6.0), 1.0)

    def change_desired_at_random(self, probability: float) -> None:
        for job in self.jobs:
            if self.random.random() < probability:
                at_s = self.random.uniform(3.0, FAULTS_UNTIL_S)
                desired = self.random.choice([Desired.STOP, Desired.CANCEL, Desired.CANCEL, Desired.RUN])
                self.users.set_desired(at_s, job, desired, repeat=True)
                if self.random.random() < 0.5:
                    self.users.set_desired(at_s + self.random.uniform(0.0, 8.0), job, Desired.RUN, repeat=True)

    def run_until_healthy(self, count: int | None = None) -> list[Driver]:
        """Submit endless jobs, run until all of them are healthy, and return their drivers."""
        for node in self.nodes:
            node.use_default_reply_timeout()
        self.submit_jobs(count or self.random.randrange(1, 4), self.endless_behaviour, 2.0)
        self.world.schedule_at(4.0, self._sample_health)
        self.world.run_until(lambda: self._healthy, within_s=10.0, what="a cluster in which every job runs")
        return self.environment.drivers.list_alive()

    def check_no_driver_ended(self, drivers: list[Driver], fault: str) -> None:
        """Report each driver that ended before one session timeout after the last fault."""
        self.world.run_for(max(0.0, FAULTS_UNTIL_S - self.world.now_s))
        self.world.run_for(TIMEOUT_S)
        for driver in drivers:
            if not driver.alive:
                self.oracles.report_violation(f"{driver} ended after this fault: {fault}")

    def run_one_script(self, scripts: list[Callable[[], None]]) -> None:
        script = self.random.choice(scripts)
        self.faults.fault_names.append(script.__name__)
        script()

    # Final checks

    def _check_recovery(self) -> None:
        """Invariants 20 and 23: all jobs are healthy within a bound after the last fault, and resources stay bounded."""
        self._healthy = False
        self.world.schedule_at(self.world.now_s + SAMPLE_S, self._sample_health)
        try:
            self.world.run_until(lambda: self._healthy, within_s=RECOVERY_S_MAX)
        except SimulatedTimeout:
            raise SimulatedTimeout(
                "; ".join(self.oracles.unhealthy_jobs()) or "there is no leader, or a node has not joined again"
            ) from None
        self.world.run_for(self.stable_s)
        self.oracles.check_bounds(jobs=len(self.jobs))

    def _sample_health(self) -> None:
        joined = all(node.agent is not None and node.agent.status.registered for node in self.nodes)
        jobs_healthy = len(self.users.submitted) == len(self.jobs) and not self.oracles.unhealthy_jobs()
        self._healthy = joined and jobs_healthy and len(self.oracles.claimed_leaders()) == 1
        if not self._healthy:
            self.world.schedule_at(self.world.now_s + SAMPLE_S, self._sample_health)
