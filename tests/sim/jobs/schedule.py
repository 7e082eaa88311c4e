"""One job schedule: a cluster with jobs, faults, and the result. The seed determines everything.

Replay a schedule and print its trace: python -m tests.sim.jobs.schedule SEED [VARIANT]
"""

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.jobs.scenario_run import ScenarioRun
from tests.sim.jobs.scenarios import REQUEST_SEEDS_FROM, SCENARIO_ROTATION, SCENARIOS, SCHEDULE_SEEDS_FROM
from tests.sim.jobs.variants import VARIANTS
from tests.sim.leadership.oracles import InvariantViolation
from tests.sim.worker_pool import WORKERS, start_pool
from tests.sim.world import SimulatedTimeout, World


@dataclass(frozen=True, slots=True)
class JobScheduleResult:
    seed: int
    scenario: str
    digest: str
    violation: str = ""
    faults: tuple[str, ...] = ()
    steps: int = 0
    drivers: int = 0
    simulated_s: float = 0.0
    restart_s: float | None = None
    """Seconds from the failure of an attempt to the start of the next one, in scenarios that measure it."""

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.scenario}: {', '.join(self.faults) or 'nothing else'}): {self.violation}"


def run_schedule(
    seed: int, variant: str = "sound", *, trace_entries: list[tuple[object, ...]] | None = None
) -> JobScheduleResult:
    broken = VARIANTS[variant]
    scenario = scenario_name(seed)
    with World(seed) as world:
        scenario_run = ScenarioRun(world, scenario, broken.components, random.Random(f"{seed}/{scenario}"))
        violation = ""
        try:
            scenario_run.execute(SCENARIOS[scenario], check_recovery=broken.check_recovery)
        except (InvariantViolation, SimulatedTimeout) as error:
            violation = str(error)
        except Exception as error:
            if trace_entries is not None:
                raise
            violation = f"{type(error).__name__}: {error}"
        if scenario_run.oracles.violations:
            violation = scenario_run.oracles.violations[0]
        if trace_entries is not None:
            trace_entries += world.trace.entries
        drivers = len(scenario_run.environment.drivers.history)
        return JobScheduleResult(
            seed,
            scenario,
            world.digest(),
            violation,
            tuple(scenario_run.faults.fault_names),
            world.loop.steps,
            drivers,
            world.now_s,
            scenario_run.restart_s,
        )


def scenario_name(seed: int) -> str:
    if seed >= REQUEST_SEEDS_FROM:
        return "requests"
    if seed >= SCHEDULE_SEEDS_FROM:
        return "schedule"
    return SCENARIO_ROTATION[seed % len(SCENARIO_ROTATION)]


def run_schedules(seeds: Iterable[int], variant: str = "sound", *, workers: int = WORKERS) -> list[JobScheduleResult]:
    """Run one schedule per seed in a process pool and return the results in order."""
    with start_pool(workers) as pool:
        return list(pool.map(run_schedule, seeds, [variant] * len(list(seeds)), chunksize=16))


if __name__ == "__main__":
    trace: list[tuple[object, ...]] = []
    result = run_schedule(int(sys.argv[1]), *sys.argv[2:3], trace_entries=trace)
    for entry in trace:
        sys.stdout.write(f"{entry}\n")
    sys.stdout.write(f"{result}\ndigest {result.digest}\n")
