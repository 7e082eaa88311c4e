"""Measure how many simulated schedules run per minute: `python -m tests.sim.throughput`, the first part of `make bench`."""

import time

from tests.sim.leadership.schedule import SCHEDULE_S, run_schedules
from tests.sim.worker_pool import WORKERS

SCHEDULES = 1000
TARGET_PER_MINUTE = 1000


def main() -> None:
    print("simulation")
    run_schedules(range(50))  # warm-up: imports everything in the worker processes
    started = time.perf_counter()
    results = run_schedules(range(SCHEDULES))
    elapsed_s = time.perf_counter() - started
    broken = sum(bool(result.violation) for result in results)
    per_minute = SCHEDULES / elapsed_s * 60
    print(f"  {SCHEDULES} schedules of {SCHEDULE_S:g} simulated seconds, 3 agents each, {WORKERS} processes: {elapsed_s:.1f} s")
    print(f"  {per_minute:,.0f} schedules per minute (target: {TARGET_PER_MINUTE:,} or more); {broken} broke an invariant")


if __name__ == "__main__":
    main()
