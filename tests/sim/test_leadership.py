"""Leadership invariants in many simulated schedules of real agents, with random and targeted faults."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.sim.leadership.agent_node import SimNode
from tests.sim.leadership.oracles import LeadershipOracles
from tests.sim.leadership.schedule import SCENARIOS, ScheduleResult, run_schedule, run_schedules
from tests.sim.leadership.variants import VARIANTS
from tests.sim.worker_pool import start_pool
from tests.sim.world import World

SCHEDULES = 1200
SCHEDULES_FAST = 60
HANDOVERS = [seed for seed in range(6000) if SCENARIOS[seed % len(SCENARIOS)] == "handover"]
BATCH = 32
Report = Callable[[str], None]


def _assert_no_violation(results: list[ScheduleResult], report: Report) -> None:
    violations = [result for result in results if result.violation]
    for result in violations[:3]:
        report(f"{result}; replay: python -m tests.sim.leadership.schedule {result.seed}")
    assert not violations, f"{len(violations)} of {len(results)} schedules: {violations[0]}"


@pytest.mark.slow
def test_few_schedules_keep_leadership_invariants(report: Report) -> None:
    _assert_no_violation(run_schedules(range(SCHEDULES_FAST)), report)


@pytest.mark.slow
def test_all_schedules_keep_leadership_invariants(report: Report) -> None:
    """Invariants 3 and 4; invariant 19 in the crash and loss schedules; recovery in the others."""
    results = run_schedules(range(SCHEDULES))
    _assert_no_violation(results, report)
    assert len(results) == SCHEDULES
    for kind in ("crash", "loss"):
        failovers_s = sorted(result.failover_s for result in results if result.scenario == kind and result.failover_s)
        assert failovers_s
        report(
            f"{len(failovers_s)} schedules with a {kind} of the leader: the next leader after {failovers_s[-1]:.2f} s at most"
        )
    faults = {name for result in results for name in result.faults}
    report(f"{SCHEDULES} schedules kept every invariant, with {len(faults)} kinds of faults")
    assert len(faults) > 20, "some fault was never chosen"


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "sound"])
def test_variant_states_the_broken_rule_and_an_existing_oracle(variant: str) -> None:
    method = VARIANTS[variant].caught_by.rpartition("LeadershipOracles.")[2]
    assert VARIANTS[variant].broken_rule
    assert callable(getattr(LeadershipOracles, method))


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "sound"])
def test_broken_variant_is_caught(variant: str, report: Report) -> None:
    with start_pool() as pool:
        for start in range(0, len(HANDOVERS), BATCH):
            batch = HANDOVERS[start : start + BATCH]
            results = pool.map(run_schedule, batch, [variant] * len(batch), chunksize=4)
            caught = next((result for result in results if result.violation), None)
            if caught is not None:
                report(f"'{variant}' was caught by {caught}")
                assert not run_schedule(caught.seed).violation, "the sound agent must pass the same schedule"
                return
    pytest.fail(f"'{variant}' survived {len(HANDOVERS)} schedules")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 5])
def test_leadership_schedule_is_replayed_exactly_from_its_seed(seed: int) -> None:
    here = run_schedule(seed).digest
    for hash_seed in ("0", "1234"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.sim.leadership.schedule", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.splitlines()[-1] == f"digest {here}"


def test_failing_leadership_schedule_names_its_seed() -> None:
    result = next(result for result in (run_schedule(seed, "no deadline of its own") for seed in HANDOVERS) if result.violation)
    assert str(result).startswith(f"seed {result.seed} ")


def test_leader_steps_down_when_reconnect_shortens_session_timeout() -> None:
    with World(7) as world:
        nodes = [SimNode(world, name) for name in ("n1", "n2")]
        for node in nodes:
            node.start()
        world.run_until(lambda: any(node.is_leading() for node in nodes), within_s=6, what="a leader")
        leader = next(node for node in nodes if node.is_leading())
        for transport in world.process(leader.process).resources:
            transport._client.timeout_s = 4.0  # type: ignore[attr-defined]  # all resources are clients here
        world.run_until(
            lambda: any(node.is_leading() for node in nodes if node is not leader), within_s=3, what="another leader"
        )
        assert not leader.is_leading()
        assert "must be more than syncLimit × tick" in leader.log.problems[-1]
