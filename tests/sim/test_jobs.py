"""Jobs over many simulated schedules: the product's own agents, leaders and runners, with faults at random, at the
worst moments,
and by scripts."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.sim.jobs.kinds import KINDS, TURNS
from tests.sim.jobs.schedule import Verdict, kind_of, run, run_all
from tests.sim.jobs.variants import VARIANTS
from tests.sim.workers import pool

SCHEDULES = 1000
SCHEDULES_FAST = 64
SEEDS_MAX = 600
"""How many schedules a broken variant may survive."""
BATCH = 16
Report = Callable[[str], None]


def _judge(verdicts: list[Verdict], report: Report) -> None:
    broken = [verdict for verdict in verdicts if verdict.violation]
    for verdict in broken[:3]:
        report(f"{verdict}; again: python -m tests.sim.jobs.schedule {verdict.seed}")
    assert not broken, f"{len(broken)} of {len(verdicts)} schedules: {broken[0]}"


def test_no_schedule_breaks_an_invariant_of_jobs_in_a_few_schedules(report: Report) -> None:
    _judge(run_all(range(SCHEDULES_FAST)), report)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_schedule_breaks_an_invariant_of_jobs(report: Report) -> None:
    verdicts = run_all(range(SCHEDULES))
    _judge(verdicts, report)
    assert {verdict.kind for verdict in verdicts} == set(KINDS)
    faults = {name for verdict in verdicts for name in verdict.faults}
    drivers = sum(verdict.drivers for verdict in verdicts)
    report(f"{SCHEDULES} schedules of jobs kept every invariant, with {len(faults)} kinds of faults and {drivers} drivers")
    assert len(faults) > 60, "some fault was never chosen"


@pytest.mark.slow
def test_after_a_mishap_the_next_attempt_is_there_in_time(report: Report) -> None:
    """Invariant 20, with figures. The bounds are in the schedules themselves."""
    seeds = [seed for seed in range(20 * len(TURNS)) if kind_of(seed) == "mishap"]
    verdicts = run_all(seeds)
    _judge(verdicts, report)
    for mishap in sorted({verdict.faults[0] for verdict in verdicts}):
        times_s = sorted(verdict.restart_s for verdict in verdicts if verdict.faults[0] == mishap and verdict.restart_s)
        report(f"{mishap}: the next attempt after {times_s[len(times_s) // 2]:.1f} s, {times_s[-1]:.1f} s at most")


def _suspects(variant: str) -> Iterator[list[int]]:
    """First a schedule that caught it once, then all of the kinds in which it should be caught."""
    kinds = VARIANTS[variant].kinds
    yield [CAUGHT[variant]]
    seeds = [seed for seed in range(SEEDS_MAX * len(TURNS)) if kind_of(seed) in kinds][:SEEDS_MAX]
    for start in range(0, len(seeds), BATCH):
        yield seeds[start : start + BATCH]


CAUGHT = {
    "no epoch check": 73,
    "what was decided from is not checked": 9,
    "whatever version is there is written over": 121,
    "results not inspected": 9,
    "retry across expiry": 1140,
    "submit in two steps": 49,
    "acknowledged before it is written": 1,
    "a cancel acknowledged before it is written": 17,
    "a job without state is started": 39,
    "a job without its name is started": 279,
    "a lease that does not check the attempt": 74,
    "a lease that does not check what is wanted": 1560,
    "a number runs twice": 17,
    "a missing lease believed": 442,
    "a report without the lease": 33,
    "no margin": 13,
    "a margin that goes on under a new leader": 57,
    "what stands in the checkpoint is not read": 6,
    "only the last end is looked for": 6,
    "a start that is too late blamed on the job": 234,
    "the name and the order in another transaction": 17,
    "swept by halves": 6,
    "garbage taken for a new job": 279,
    "attempts begin again at 1": 39,
    "an order believed": 87,
    "a session closed before the driver is dead": 36,
    "certified before everything is gone": 36,
    "the end of a pipe taken for death": 21,
    "a tree ended without its watchdog": 346,
    "margin too small": 26,
    "deadline counted from the reply": 794,
    "a read taken for a confirmation": 250,
    "the first write after a pause trusted": 794,
    "a connection lost taken for a lease lost": 12,
    "no watchdog": 1370,
    "the start is not gated": 586,
    "a promise not forced to the disk": 427,
    "no waiting after a reboot": 235,
    "a promise counted from its answer": 19,
    "a promise used to the last moment": 91,
    "the promise of some taken for that of all": 51,
    "the next attempt outside the failsafe set": 3,
    "a set that may have been written is forgotten": 435,
    "failures forgotten by a new leader": 721,
    "back-off forgotten by a new leader": 1345,
}
"""For each variant, a schedule that caught it once. It is tried first."""


def test_every_variant_is_judged() -> None:
    assert set(CAUGHT) == set(VARIANTS) - {"sound"}


@pytest.mark.slow
@pytest.mark.parametrize("variant", sorted(CAUGHT))
def test_a_broken_variant_is_caught(variant: str, report: Report) -> None:
    with pool() as started:
        for seeds in _suspects(variant):
            for caught in started.map(run, seeds, [variant] * len(seeds)):
                if caught.violation and not run(caught.seed).violation:
                    report(f"'{variant}' was caught by {caught}")
                    return
    pytest.fail(f"'{variant}' survived {SEEDS_MAX} schedules")


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_a_schedule_of_jobs_is_replayed_exactly_from_its_seed(seed: int) -> None:
    here = run(seed).digest
    for hash_seed in ("0", "1234"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.sim.jobs.schedule", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.splitlines()[-1] == f"digest {here}"


def test_a_failing_schedule_of_jobs_names_its_seed() -> None:
    variant = "a connection lost taken for a lease lost"
    seeds = (seed for seed in range(200) if kind_of(seed) in VARIANTS[variant].kinds)
    verdict = next(verdict for verdict in (run(seed, variant) for seed in seeds) if verdict.violation)
    assert str(verdict).startswith(f"seed {verdict.seed} ")
