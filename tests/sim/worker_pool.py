"""Process pool for schedules. Its workers are forked from a clean server process that has loaded only the simulator.

Workers forked from the test process would inherit state of other tests: one such worker crashed with a segmentation fault
during garbage collection, because libraries lost their threads in the fork.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

WORKERS = 2
_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.sim.leadership.schedule", "tests.sim.jobs.schedule"])


def start_pool(workers: int = WORKERS, *, initializer: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    """Start a pool. The fork server imports the simulator once for all workers. Each worker first calls `initializer`."""
    return ProcessPoolExecutor(workers, mp_context=_context, initializer=initializer)
