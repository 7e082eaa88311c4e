"""Job invariants in schedules in which nodes often cannot start a runner, for example because their disks are full."""

import random

import pytest

from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId, SpawnFailed
from tests.sim.jobs.cluster.job_node import Components
from tests.sim.jobs.cluster.node_attempts import SimAttemptOperations
from tests.sim.jobs.scenario_run import ScenarioRun
from tests.sim.jobs.scenarios import SCENARIOS
from tests.sim.jobs.schedule import scenario_name
from tests.sim.leadership.oracles import InvariantViolation
from tests.sim.world import SimulatedTimeout, World

SEEDS = [seed for seed in range(64) if scenario_name(seed) != "mishap"]  # that scenario limits the time of a restart


class OftenFullDisk(SimAttemptOperations):
    """Attempts of a node that cannot start every third runner."""

    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None:
        if random.Random(f"{attempt_id}").random() < 1 / 3:
            await self._delay()
            raise SpawnFailed("No space left on device")
        await super().spawn(attempt_id, versions)


def run_with(components: Components, seed: int) -> tuple[str, int]:
    """Run one schedule. Return the violated invariant, or an empty string, and the number of reported failed starts."""
    scenario = scenario_name(seed)
    with World(seed) as world:
        run = ScenarioRun(world, scenario, components, random.Random(f"{seed}/{scenario}"))
        try:
            run.execute(SCENARIOS[scenario], check_recovery=False)
        except (InvariantViolation, SimulatedTimeout) as error:
            return str(error), 0
        violations = run.oracles.violations
        failed = sum("attempt not started" in str(entry) for entry in world.trace.entries)
        return (violations[0] if violations else ""), failed


@pytest.mark.slow
def test_schedules_with_failed_starts_keep_job_invariants() -> None:
    results = {seed: run_with(Components(attempts=OftenFullDisk), seed) for seed in SEEDS}
    assert {seed: violation for seed, (violation, _) in results.items() if violation} == {}
    assert sum(failed for _, failed in results.values()) > len(SEEDS) / 2, "failed starts were reported"
