"""One leadership schedule: a cluster of agents, faults, and the result. The seed determines everything.

Replay a schedule and print its trace: python -m tests.sim.leadership.schedule SEED [VARIANT]
"""

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.leadership.agent_node import TICK_S, TIMEOUT_S, SimNode
from tests.sim.leadership.faults import LeadershipFaults
from tests.sim.leadership.oracles import InvariantViolation, LeadershipOracles
from tests.sim.leadership.variants import VARIANTS, LeadershipVariant
from tests.sim.worker_pool import WORKERS, start_pool
from tests.sim.world import SimulatedTimeout, World

SCHEDULE_S = 30.0
RECOVERY_S = 14.0
CRASH_FAILOVER_S_MAX = 1.0
MACHINE_LOSS_FAILOVER_S_MAX = TIMEOUT_S + 2 * TICK_S
SCENARIOS = ("handover", "handover", "storm", "storm", "crash", "loss")


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    seed: int
    scenario: str
    digest: str
    violation: str = ""
    faults: tuple[str, ...] = ()
    steps: int = 0
    failover_s: float | None = None

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.scenario}: {', '.join(self.faults) or 'nothing else'}): {self.violation}"


def run_schedule(seed: int, variant: str = "sound", *, trace_entries: list[tuple[object, ...]] | None = None) -> ScheduleResult:
    broken = VARIANTS[variant]
    scenario = SCENARIOS[seed % len(SCENARIOS)]
    with World(seed) as world:
        nodes = [SimNode(world, name, broken.agent, broken.timing) for name in ("n1", "n2", "n3")]
        oracles = LeadershipOracles(world, nodes)
        faults = LeadershipFaults(world, nodes, oracles, random.Random(f"{seed}/faults"))
        violation, failover_s = "", None
        try:
            failover_s = _run_faults(world, nodes, oracles, faults, scenario, broken)
            oracles.raise_first_violation()
        except (InvariantViolation, SimulatedTimeout) as error:
            violation = str(error)
        if trace_entries is not None:
            trace_entries += world.trace.entries
        return ScheduleResult(
            seed, scenario, world.digest(), violation, tuple(faults.fault_names), world.loop.steps, failover_s
        )


def _run_faults(
    world: World,
    nodes: list[SimNode],
    oracles: LeadershipOracles,
    faults: LeadershipFaults,
    scenario: str,
    variant: LeadershipVariant,
) -> float | None:
    for node in nodes:
        world.schedule_at(random.Random(f"{world.seed}/{node.name}/start").uniform(0, 0.5), node.start)
    world.run_until(lambda: len(oracles.claimed_leaders()) == 1, within_s=6.0, what="a first leader")
    if scenario in ("crash", "loss"):
        return _check_failover_time(world, nodes, oracles, scenario)
    rng = random.Random(f"{world.seed}/{scenario}")
    for _ in range(rng.randrange(1, 4) if scenario == "handover" else rng.randrange(2)):
        faults.arm_targeted_fault()
    for _ in range(rng.randrange(2) if scenario == "handover" else rng.randrange(2, 7)):
        faults.schedule_random_fault(rng.uniform(world.now_s, SCHEDULE_S - RECOVERY_S), SCHEDULE_S - RECOVERY_S)
    world.run_for(SCHEDULE_S - RECOVERY_S - world.now_s)
    faults.heal_all()
    if variant.check_recovery:
        _check_recovery(world, nodes, oracles)
    return None


def _check_failover_time(world: World, nodes: list[SimNode], oracles: LeadershipOracles, scenario: str) -> float:
    """Invariant 19: a leader exists within 1 s of a process crash, and within T + 2 ticks of a machine loss."""
    world.run_for(random.Random(f"{world.seed}/when").uniform(1.0, 6.0))
    leader = next(node for node in nodes if node.is_leading())
    epoch, at_s = oracles.epoch, world.now_s
    bound_s = CRASH_FAILOVER_S_MAX if scenario == "crash" else MACHINE_LOSS_FAILOVER_S_MAX
    (leader.crash if scenario == "crash" else leader.power_off)()
    world.run_until(
        lambda: oracles.epoch > epoch and any(node.is_leading() for node in nodes if node is not leader),
        within_s=bound_s,
        what=f"another leader after the {scenario} of {leader.name}",
    )
    failover_s = world.now_s - at_s
    world.run_for(SCHEDULE_S - world.now_s)
    return failover_s


def _check_recovery(world: World, nodes: list[SimNode], oracles: LeadershipOracles) -> None:
    world.run_for(RECOVERY_S - 0.5)
    world.run_until(lambda: len(oracles.claimed_leaders()) == 1, within_s=0.5, what="one leader after everything was healed")
    missing = [node.name for node in nodes if node.agent is None or not node.agent.status.registered]
    if missing:
        raise SimulatedTimeout(f"{', '.join(missing)} did not join again after everything was healed")


def run_schedules(seeds: Iterable[int], variant: str = "sound", *, workers: int = WORKERS) -> list[ScheduleResult]:
    """Run one schedule per seed in a process pool and return the results in order."""
    with start_pool(workers) as pool:
        return list(pool.map(run_schedule, seeds, [variant] * len(list(seeds)), chunksize=16))


if __name__ == "__main__":
    trace: list[tuple[object, ...]] = []
    result = run_schedule(int(sys.argv[1]), *sys.argv[2:3], trace_entries=trace)
    for entry in trace:
        sys.stdout.write(f"{entry}\n")
    sys.stdout.write(f"{result}\ndigest {result.digest}\n")
