"""How many schedules of 30 simulated seconds run in a minute, on two cores."""

import time

from tests.sim.schedule import SCHEDULE_S, run_all
from tests.sim.workers import WORKERS

SCHEDULES = 1000
TARGET_PER_MINUTE = 1000


def main() -> None:
    run_all(range(50))  # so that nobody pays for the first import
    started = time.perf_counter()
    verdicts = run_all(range(SCHEDULES))
    elapsed_s = time.perf_counter() - started
    broken = sum(bool(verdict.violation) for verdict in verdicts)
    per_minute = SCHEDULES / elapsed_s * 60
    print(f"  {SCHEDULES} schedules of {SCHEDULE_S:g} simulated seconds, 3 agents each, {WORKERS} processes: {elapsed_s:.1f} s")
    print(f"  {per_minute:,.0f} schedules per minute (target: {TARGET_PER_MINUTE:,} or more); {broken} broke an invariant")
