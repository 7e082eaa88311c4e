"""Job invariants in many simulated schedules of real agents, leaders and runners, with random, targeted and scripted faults."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.jobs.checks.run_rules import RunRules
from tests.sim.jobs.checks.transaction_rules import TransactionRules
from tests.sim.jobs.scenario_run import ScenarioRun
from tests.sim.jobs.scenarios import REQUEST_SEEDS_FROM, SCENARIO_ROTATION, SCENARIOS, SCHEDULE_SEEDS_FROM, SERVERS_PAUSED
from tests.sim.jobs.schedule import JobScheduleResult, run_schedule, run_schedules, scenario_name
from tests.sim.jobs.users import Users
from tests.sim.jobs.variants import VARIANTS
from tests.sim.leadership.oracles import LeadershipOracles
from tests.sim.worker_pool import start_pool

SCHEDULES = 1000
SCHEDULES_WITH_SCHEDULE = 200
"""Simulated schedules with scheduled jobs."""
SCHEDULES_WITH_REQUESTS = 200
"""Simulated schedules in which users send many requests while attempts are lost."""
SCHEDULES_FAST = 64
SEEDS_MAX = 600
"""Maximum number of schedules that a broken variant may survive."""
BATCH = 16
Report = Callable[[str], None]


def _assert_no_violation(results: list[JobScheduleResult], report: Report) -> None:
    violations = [result for result in results if result.violation]
    for result in violations[:3]:
        report(f"{result}; replay: python -m tests.sim.jobs.schedule {result.seed}")
    assert not violations, f"{len(violations)} of {len(results)} schedules: {violations[0]}"


@pytest.mark.slow
def test_few_schedules_keep_job_invariants(report: Report) -> None:
    _assert_no_violation(run_schedules([*range(SCHEDULES_FAST), *range(SCHEDULE_SEEDS_FROM, SCHEDULE_SEEDS_FROM + 8)]), report)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_schedules_keep_job_invariants(report: Report) -> None:
    scheduled = range(SCHEDULE_SEEDS_FROM, SCHEDULE_SEEDS_FROM + SCHEDULES_WITH_SCHEDULE)
    requested = range(REQUEST_SEEDS_FROM, REQUEST_SEEDS_FROM + SCHEDULES_WITH_REQUESTS)
    results = run_schedules([*range(SCHEDULES), *scheduled, *requested])
    _assert_no_violation(results, report)
    assert {result.scenario for result in results} == set(SCENARIOS)
    faults = {name for result in results for name in result.faults}
    drivers = sum(result.drivers for result in results)
    report(f"{len(results)} job schedules kept every invariant, with {len(faults)} kinds of faults and {drivers} drivers")
    assert len(faults) > 60, "some fault was never chosen"


@pytest.mark.slow
def test_finished_job_does_not_run_again_if_a_forced_restart_comes_before_the_certificate(report: Report) -> None:
    """In these schedules, the node of the finished attempt certifies its end after the leader has given it up."""
    _assert_no_violation(run_schedules([REQUEST_SEEDS_FROM + 1312, REQUEST_SEEDS_FROM + 1486]), report)


@pytest.mark.slow
def test_paused_zookeeper_servers_restart_no_driver(report: Report) -> None:
    """Invariant 9, for outages in which the servers expire all sessions at the moment at which they continue."""
    seeds = [seed for seed in range(40 * len(SCENARIO_ROTATION)) if scenario_name(seed) == "outage"]
    results = run_schedules(seeds)
    _assert_no_violation(results, report)
    paused = [result for result in results if SERVERS_PAUSED in result.faults]
    report(f"{len(paused)} clusters restarted no driver after all ZooKeeper servers were paused")
    assert paused


@pytest.mark.slow
def test_next_attempt_starts_in_time_after_single_failure(report: Report) -> None:
    """Invariant 20, with measured times. The scenario itself checks the bounds."""
    seeds = [seed for seed in range(320) if scenario_name(seed) == "mishap"]
    results = run_schedules(seeds)
    _assert_no_violation(results, report)
    for failure in sorted({result.faults[0] for result in results}):
        times_s = sorted(result.restart_s for result in results if result.faults[0] == failure and result.restart_s)
        report(f"{failure}: next attempt after {times_s[len(times_s) // 2]:.1f} s (median), {times_s[-1]:.1f} s (maximum)")


def _seed_batches(variant: str) -> Iterator[list[int]]:
    """Yield the seed that caught the variant before, then batches of seeds of the variant's scenarios."""
    scenarios = VARIANTS[variant].scenarios
    yield [CATCHING_SEEDS[variant]]
    candidates = chain(range(SEEDS_MAX * len(SCENARIO_ROTATION)), range(SCHEDULE_SEEDS_FROM, SCHEDULE_SEEDS_FROM + SEEDS_MAX))
    seeds = [seed for seed in candidates if scenario_name(seed) in scenarios][:SEEDS_MAX]
    for start in range(0, len(seeds), BATCH):
        yield seeds[start : start + BATCH]


CATCHING_SEEDS = {
    "no epoch check": 73,
    "decision inputs not checked": 9,
    "versions not checked": 121,
    "results not inspected": 9,
    "retry across expiry": 1140,
    "submit in two steps": 1793,
    "submit acknowledged before commit": 1,
    "cancel acknowledged before commit": 17,
    "job without state started": 39,
    "job without name started": 279,
    "lease without attempt check": 426,
    "lease without desired check": 2065,
    "attempt number run twice": 17,
    "lease taken again without attempt check": 3,
    "lease taken again without report": 3,
    "lease taken again after the deadline": 19,
    "new session taken for a confirmation": 1907,
    "missing lease without report check": 1306,
    "report without lease": 33,
    "no margin": 68,
    "margin continued by new leader": 57,
    "registered node not asked": 8,
    "restarting node taken for gone": 7880,
    "attempt certified without ending it": 8,
    "older attempt left running before spawn": 56,
    "certified while promised": 19,
    "certified despite lease": 872,
    "promise renewed for ordered end": 104,
    "checkpoint outcomes not read": 38,
    "only last checkpoint outcome read": 38,
    "loss taken for an outcome": 38,
    "unreported attempts forgotten": 38,
    "late start counted as job failure": 74,
    "name released in second transaction": 17,
    "record deleted in two transactions": 6,
    "unreadable state taken for new job": 279,
    "quarantine resets attempt number": 39,
    "orders before recognition": 24,
    "cluster verified once per session": 24,
    "newer schema stops the leader": 7,
    "order followed without state": 87,
    "session closed before driver is dead": 4,
    "certified before processes are dead": 4,
    "pipe end taken for death": 53,
    "tree killed without watchdog": 186,
    "running before Spark exists": 0,
    "margin too small": 42,
    "deadline counted from the reply": 10,
    "read taken for a confirmation": 250,
    "lost connection taken for lost lease": 12,
    "watchdog without deadline": 8730,
    "start after the deadline": 282,
    "promise not synced to disk": 123,
    "no wait after reboot": 235,
    "promise counted from the reply": 355,
    "promise used without margin": 1419,
    "majority of promises accepted": 51,
    "next attempt outside the failsafe set": 275,
    "possible failsafe set ignored": 435,
    "new leader forgets the position": 1_000_003,
    "finished run repeated": 1_000_000,
    "new leader forgets failures": 721,
    "new leader forgets back-off": 1345,
}
"""Seed of a schedule that caught each variant before. It is tried first."""


def test_every_variant_has_a_known_seed() -> None:
    assert set(CATCHING_SEEDS) == set(VARIANTS) - {"sound"}


@pytest.mark.parametrize("variant", sorted(CATCHING_SEEDS))
def test_variant_states_the_broken_rule_and_an_existing_oracle(variant: str) -> None:
    classes = {
        oracle.__name__: oracle for oracle in (JobOracles, LeadershipOracles, RunRules, ScenarioRun, TransactionRules, Users)
    }
    class_name, _, method = VARIANTS[variant].caught_by.rpartition(" ")[2].partition(".")
    assert VARIANTS[variant].broken_rule
    assert callable(getattr(classes[class_name], method))


@pytest.mark.slow
@pytest.mark.parametrize("variant", sorted(CATCHING_SEEDS))
def test_broken_variant_is_caught(variant: str, report: Report) -> None:
    with start_pool() as pool:
        for seeds in _seed_batches(variant):
            for caught in pool.map(run_schedule, seeds, [variant] * len(seeds)):
                if caught.violation and not run_schedule(caught.seed).violation:
                    report(f"'{variant}' was caught by {caught}")
                    return
    pytest.fail(f"'{variant}' survived {SEEDS_MAX} schedules")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 7])
def test_job_schedule_is_replayed_exactly_from_its_seed(seed: int) -> None:
    here = run_schedule(seed).digest
    for hash_seed in ("0", "1234"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.sim.jobs.schedule", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.splitlines()[-1] == f"digest {here}"


def test_failing_job_schedule_names_its_seed() -> None:
    variant = "lost connection taken for lost lease"
    seeds = (seed for seed in range(200) if scenario_name(seed) in VARIANTS[variant].scenarios)
    result = next(result for result in (run_schedule(seed, variant) for seed in seeds) if result.violation)
    assert str(result).startswith(f"seed {result.seed} ")
