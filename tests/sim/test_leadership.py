"""Leadership over many simulated schedules: the product's own agents, faults at random and at the worst moments."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.sim.nodes import SimNode
from tests.sim.schedule import KINDS, Verdict, run, run_all
from tests.sim.variants import VARIANTS
from tests.sim.workers import pool
from tests.sim.world import World

SCHEDULES = 1200
SCHEDULES_FAST = 60
HANDOVERS = [seed for seed in range(6000) if KINDS[seed % len(KINDS)] == "handover"]
BATCH = 32
Report = Callable[[str], None]


def _judge(verdicts: list[Verdict], report: Report) -> None:
    broken = [verdict for verdict in verdicts if verdict.violation]
    for verdict in broken[:3]:
        report(f"{verdict}; again: python -m tests.sim.schedule {verdict.seed}")
    assert not broken, f"{len(broken)} of {len(verdicts)} schedules: {broken[0]}"


def test_no_schedule_breaks_an_invariant_of_leadership_in_a_few_schedules(report: Report) -> None:
    _judge(run_all(range(SCHEDULES_FAST)), report)


@pytest.mark.slow
def test_no_schedule_breaks_an_invariant_of_leadership(report: Report) -> None:
    """Invariants 3 and 4; 19 in the crash and loss schedules; recovery in the others."""
    verdicts = run_all(range(SCHEDULES))
    _judge(verdicts, report)
    assert len(verdicts) == SCHEDULES
    for kind in ("crash", "loss"):
        failovers_s = sorted(verdict.failover_s for verdict in verdicts if verdict.kind == kind and verdict.failover_s)
        assert failovers_s
        report(f"{len(failovers_s)} schedules with a {kind} of the leader: another one after {failovers_s[-1]:.2f} s at most")
    faults = {name for verdict in verdicts for name in verdict.faults}
    report(f"{SCHEDULES} schedules kept every invariant, with {len(faults)} kinds of faults")
    assert len(faults) > 20, "some fault was never chosen"


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "sound"])
def test_a_broken_variant_is_caught(variant: str, report: Report) -> None:
    with pool() as started:
        for start in range(0, len(HANDOVERS), BATCH):
            batch = HANDOVERS[start : start + BATCH]
            verdicts = started.map(run, batch, [variant] * len(batch), chunksize=4)
            caught = next((verdict for verdict in verdicts if verdict.violation), None)
            if caught is not None:
                report(f"'{variant}' was caught by {caught}")
                assert not run(caught.seed).violation, "the sound agent passes the same schedule"
                return
    pytest.fail(f"'{variant}' survived {len(HANDOVERS)} schedules")


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_a_schedule_is_replayed_exactly_from_its_seed(seed: int) -> None:
    here = run(seed).digest
    for hash_seed in ("0", "1234"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.sim.schedule", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.splitlines()[-1] == f"digest {here}"


def test_a_failing_schedule_names_its_seed() -> None:
    verdict = next(verdict for verdict in (run(seed, "no deadline of its own") for seed in HANDOVERS) if verdict.violation)
    assert str(verdict).startswith(f"seed {verdict.seed} ")


def test_a_timeout_that_is_cut_down_at_a_reconnection_is_refused_and_the_place_left_to_others() -> None:
    with World(7) as world:
        nodes = [SimNode(world, name) for name in ("n1", "n2")]
        for node in nodes:
            node.start()
        world.run_until(lambda: any(node.leading() for node in nodes), within_s=6, what="a leader")
        leader = next(node for node in nodes if node.leading())
        for client in world.process(leader.process).residents:
            client._face._timeout_s = 4.0  # type: ignore[attr-defined]
        world.run_until(lambda: any(node.leading() for node in nodes if node is not leader), within_s=3, what="another leader")
        assert not leader.leading()
        assert "must be more than syncLimit × tick" in leader.log.problems[-1]
