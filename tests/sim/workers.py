"""Schedules run in processes that come from one that has loaded nothing but the simulator.

Forked from the test run itself, they would have whatever other tests have left there. Seen: a worker that died
of a segmentation fault while it collected garbage, of libraries whose threads a fork does not bring along.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

WORKERS = 2
_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.sim.schedule", "tests.sim.jobs.schedule"])


def pool(workers: int = WORKERS) -> ProcessPoolExecutor:
    """What is imported is imported once, for all of them."""
    return ProcessPoolExecutor(workers, mp_context=_context)
