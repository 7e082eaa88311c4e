"""One schedule: a cluster of agents, what goes wrong, and the verdict. Everything from the seed.

python -m tests.sim.schedule SEED [VARIANT]      runs one again and prints its trace
"""

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.faults import Faults
from tests.sim.nodes import TICK_S, TIMEOUT_S, SimNode
from tests.sim.oracles import Oracles, Violation
from tests.sim.variants import VARIANTS, Variant
from tests.sim.workers import WORKERS, pool
from tests.sim.world import Stuck, World

SCHEDULE_S = 30.0
HEALED_S = 14.0
CRASH_S_MAX = 1.0
LOSS_S_MAX = TIMEOUT_S + 2 * TICK_S
KINDS = ("handover", "handover", "storm", "storm", "crash", "loss")


@dataclass(frozen=True, slots=True)
class Verdict:
    seed: int
    kind: str
    digest: str
    violation: str = ""
    faults: tuple[str, ...] = ()
    steps: int = 0
    failover_s: float | None = None

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.kind}: {', '.join(self.faults) or 'nothing else'}): {self.violation}"


def run(seed: int, variant: str = "sound", *, keep_trace: list[tuple[object, ...]] | None = None) -> Verdict:
    broken = VARIANTS[variant]
    kind = KINDS[seed % len(KINDS)]
    with World(seed) as world:
        nodes = [SimNode(world, name, broken.agent, broken.timing) for name in ("n1", "n2", "n3")]
        oracles = Oracles(world, nodes)
        faults = Faults(world, nodes, oracles, random.Random(f"{seed}/faults"))
        violation, failover_s = "", None
        try:
            failover_s = _play(world, nodes, oracles, faults, kind, broken)
            oracles.verdict()
        except (Violation, Stuck) as error:
            violation = str(error)
        if keep_trace is not None:
            keep_trace += world.trace.entries
        return Verdict(seed, kind, world.digest(), violation, tuple(faults.names), world.loop.steps, failover_s)


def _play(world: World, nodes: list[SimNode], oracles: Oracles, faults: Faults, kind: str, variant: Variant) -> float | None:
    for node in nodes:
        world.at(random.Random(f"{world.seed}/{node.name}/start").uniform(0, 0.5), node.start)
    world.run_until(lambda: len(oracles.claimants()) == 1, within_s=6.0, what="a first leader")
    if kind in ("crash", "loss"):
        return _fail_over(world, nodes, oracles, kind)
    rng = random.Random(f"{world.seed}/{kind}")
    for _ in range(rng.randrange(1, 4) if kind == "handover" else rng.randrange(2)):
        faults.aimed_one()
    for _ in range(rng.randrange(2) if kind == "handover" else rng.randrange(2, 7)):
        faults.random_one(rng.uniform(world.now_s, SCHEDULE_S - HEALED_S), SCHEDULE_S - HEALED_S)
    world.run_for(SCHEDULE_S - HEALED_S - world.now_s)
    faults.heal_all()
    if variant.lives:
        _recover(world, nodes, oracles)
    return None


def _fail_over(world: World, nodes: list[SimNode], oracles: Oracles, kind: str) -> float:
    """Invariant 19: a leader exists within a second of a process crash, T + 2 ticks of the loss of a machine."""
    world.run_for(random.Random(f"{world.seed}/when").uniform(1.0, 6.0))
    leader = next(node for node in nodes if node.leading())
    epoch, at_s = oracles.epoch, world.now_s
    bound_s = CRASH_S_MAX if kind == "crash" else LOSS_S_MAX
    (leader.crash if kind == "crash" else leader.lose)()
    world.run_until(
        lambda: oracles.epoch > epoch and any(node.leading() for node in nodes if node is not leader),
        within_s=bound_s,
        what=f"another leader after the {kind} of {leader.name}",
    )
    failover_s = world.now_s - at_s
    world.run_for(SCHEDULE_S - world.now_s)
    return failover_s


def _recover(world: World, nodes: list[SimNode], oracles: Oracles) -> None:
    world.run_for(HEALED_S - 0.5)
    world.run_until(lambda: len(oracles.claimants()) == 1, within_s=0.5, what="one leader after everything was healed")
    missing = [node.name for node in nodes if node.agent is None or not node.agent.status.registered]
    if missing:
        raise Stuck(f"{', '.join(missing)} did not join again after everything was healed")


def run_all(seeds: Iterable[int], variant: str = "sound", *, workers: int = WORKERS) -> list[Verdict]:
    """On all cores."""
    with pool(workers) as started:
        return list(started.map(run, seeds, [variant] * len(list(seeds)), chunksize=16))


if __name__ == "__main__":
    trace: list[tuple[object, ...]] = []
    verdict = run(int(sys.argv[1]), *sys.argv[2:3], keep_trace=trace)
    for entry in trace:
        sys.stdout.write(f"{entry}\n")
    sys.stdout.write(f"{verdict}\ndigest {verdict.digest}\n")
