"""Bulk run of schedules on all cores. Prints progress, each violation and a summary, and keeps no results."""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TextIO

import tests.sim.jobs.schedule as jobs
import tests.sim.leadership.schedule as leadership
from tests.sim.jobs.scenarios import SCHEDULE_SEEDS_FROM
from tests.sim.jobs.variants import VARIANTS as JOB_VARIANTS
from tests.sim.leadership.variants import VARIANTS as LEADERSHIP_VARIANTS
from tests.sim.worker_pool import start_pool

BATCH = 8
"""Schedules per task of a worker. Ctrl-C waits for the tasks that have begun."""
PROGRESS_S = 10.0
INTERRUPTED = 130
"""Exit code of a run that the user has interrupted, as shells define it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one schedule."""

    scenario: str
    faults: tuple[str, ...] = ()
    drivers: int = 0
    violation: str = ""
    """Sentence with the seed and the command that repeats the schedule; empty if every invariant held."""


@dataclass
class Summary:
    kind: str
    """Kind of the schedules: `job` or `leadership`."""
    by_scenario: Counter[str] = field(default_factory=Counter)
    faults: set[str] = field(default_factory=set)
    drivers: int = 0
    violations: int = 0

    @property
    def schedules(self) -> int:
        return self.by_scenario.total()

    def add(self, outcome: Outcome) -> None:
        self.by_scenario[outcome.scenario] += 1
        self.faults.update(outcome.faults)
        self.drivers += outcome.drivers
        self.violations += bool(outcome.violation)

    def __str__(self) -> str:
        scenarios = ", ".join(f"{scenario} {count}" for scenario, count in sorted(self.by_scenario.items())) or "none"
        drivers = f", {self.drivers} drivers" if self.drivers else ""
        return (
            f"{self.schedules} {self.kind} schedules ({scenarios}), {len(self.faults)} kinds of faults{drivers}, "
            f"{self.violations} violations"
        )


class BulkRun:
    def __init__(self, seeds: range, kind: str, workers: int, variant: str = "sound") -> None:
        self._seeds = seeds
        self._variant = variant
        self._workers = workers
        self._batches = (seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH))
        self._pending: set[Future[list[Outcome]]] = set()
        self._started_s = self._reported_s = time.monotonic()
        self.summary = Summary(kind)

    def run(self) -> None:
        """Run all schedules. Raises KeyboardInterrupt after the tasks that have begun."""
        with start_pool(self._workers, initializer=_ignore_interrupt) as pool:
            try:
                self._submit(pool, 2 * self._workers)
                while self._pending:
                    done, self._pending = wait(self._pending, PROGRESS_S, return_when=FIRST_COMPLETED)
                    self._submit(pool, len(done))
                    for future in done:
                        self._add(future.result())
                    self._report_progress()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, pool: ProcessPoolExecutor, batches: int) -> None:
        for seeds in islice(self._batches, batches):
            self._pending.add(pool.submit(_run_batch, self.summary.kind, seeds, self._variant))

    def _add(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            self.summary.add(outcome)
            if outcome.violation:
                _say(outcome.violation)

    def _report_progress(self) -> None:
        now_s = time.monotonic()
        if now_s < self._reported_s + PROGRESS_S:
            return
        self._reported_s = now_s
        done, per_s = self.summary.schedules, self.summary.schedules / (now_s - self._started_s)
        left_min = (len(self._seeds) - done) / per_s / 60 if done else float("inf")
        _say(
            f"{done} of {len(self._seeds)} schedules, {per_s:.1f} per second, {self.summary.violations} violations, "
            f"{left_min:.0f} min left",
            sys.stderr,
        )


def _say(sentence: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    stream.write(f"{sentence}\n")
    stream.flush()


def _ignore_interrupt() -> None:
    """Leave Ctrl-C, which reaches all processes of the terminal, to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_batch(kind: str, seeds: range, variant: str) -> list[Outcome]:
    return [_run_schedule(kind, seed, variant) for seed in seeds]


def _run_schedule(kind: str, seed: int, variant: str) -> Outcome:
    replay = f"replay: python -m tests.sim.{'jobs' if kind == 'job' else kind}.schedule {seed}"
    if variant != "sound":
        replay += f" '{variant}'"
    result: jobs.JobScheduleResult | leadership.ScheduleResult
    try:
        result = jobs.run_schedule(seed, variant) if kind == "job" else leadership.run_schedule(seed, variant)
    except Exception as error:  # noqa: BLE001 -- an error of one schedule must not end the other schedules
        return Outcome("failed", violation=f"seed {seed}: {type(error).__name__}: {error}; {replay}")
    drivers = result.drivers if isinstance(result, jobs.JobScheduleResult) else 0
    return Outcome(result.scenario, result.faults, drivers, f"{result}; {replay}" if result.violation else "")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bulk", description=__doc__)
    parser.add_argument("--schedules", type=int, required=True, metavar="N", help="number of schedules")
    parser.add_argument(
        "--from",
        type=int,
        default=0,
        dest="first",
        metavar="SEED",
        help=f"first seed; job schedules from {SCHEDULE_SEEDS_FROM} on have scheduled jobs (default: 0)",
    )
    parser.add_argument("--leadership", action="store_true", help="run leadership schedules instead of job schedules")
    parser.add_argument("--variant", default="sound", metavar="NAME", help="run a broken variant (default: the real code)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all cores)")
    options = parser.parse_args(arguments)
    if min(options.schedules, options.workers) < 1 or options.first < 0:
        parser.error("--schedules and --workers must be at least 1, and --from at least 0")
    if options.variant not in (LEADERSHIP_VARIANTS if options.leadership else JOB_VARIANTS):
        parser.error(f"there is no variant '{options.variant}'")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    seeds = range(options.first, options.first + options.schedules)
    bulk = BulkRun(seeds, "leadership" if options.leadership else "job", options.workers, options.variant)
    interrupted = False
    try:
        bulk.run()
    except KeyboardInterrupt:
        interrupted = True
    _say(f"{'interrupted after ' if interrupted else ''}{bulk.summary}")
    if bulk.summary.violations:
        return 1
    return INTERRUPTED if interrupted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
