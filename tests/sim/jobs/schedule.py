"""One schedule: a cluster with jobs, what goes wrong, and the verdict. Everything from the seed.

python -m tests.sim.jobs.schedule SEED [VARIANT]      runs one again and prints its trace
"""

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.jobs.kinds import KINDS, TURNS
from tests.sim.jobs.play import Play
from tests.sim.jobs.variants import VARIANTS
from tests.sim.oracles import Violation
from tests.sim.workers import WORKERS, pool
from tests.sim.world import Stuck, World


@dataclass(frozen=True, slots=True)
class Verdict:
    seed: int
    kind: str
    digest: str
    violation: str = ""
    faults: tuple[str, ...] = ()
    steps: int = 0
    drivers: int = 0
    simulated_s: float = 0.0
    restart_s: float | None = None
    """From what happened to one attempt to the next one, in the schedules that measure it."""

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.kind}: {', '.join(self.faults) or 'nothing else'}): {self.violation}"


def run(seed: int, variant: str = "sound", *, keep_trace: list[tuple[object, ...]] | None = None) -> Verdict:
    broken = VARIANTS[variant]
    kind = kind_of(seed)
    with World(seed) as world:
        play = Play(world, kind, broken.kit, random.Random(f"{seed}/{kind}"))
        violation = ""
        try:
            play.perform(KINDS[kind], lives=broken.lives)
        except (Violation, Stuck) as error:
            violation = str(error)
        except Exception as error:
            if keep_trace is not None:
                raise
            violation = f"{type(error).__name__}: {error}"
        if play.oracles.violations:
            violation = play.oracles.violations[0]
        if keep_trace is not None:
            keep_trace += world.trace.entries
        drivers = len(play.around.drivers.all)
        return Verdict(
            seed,
            kind,
            world.digest(),
            violation,
            tuple(play.faults.names),
            world.loop.steps,
            drivers,
            world.now_s,
            play.restart_s,
        )


def kind_of(seed: int) -> str:
    return TURNS[seed % len(TURNS)]


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
