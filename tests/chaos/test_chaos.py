"""Short run of the chaos suite: random faults against a real cluster, judged by its recorded history."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checkers import check_history
from tests.chaos.history import load_history
from tests.chaos.lanes import LANES
from tests.chaos.report import write_report
from tests.chaos.run import ChaosRun, RunSettings

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

SEED = 1118
SECONDS = 80.0


def test_short_run_with_a_fixed_seed_has_no_violation(tmp_path: Path, report: Callable[[str], None]) -> None:
    """Invariants 1, 5, 6, 7, 8, 9, 18 and 20, while processes, nodes and ZooKeeper servers fail at random."""
    out, lines = tmp_path / "run", list[str]()
    report(f"chaos: seed {SEED}; the same faults again: python -m tests.chaos --lane short --seed {SEED}")
    settings = RunSettings(seed=SEED, seconds=SECONDS, lane=LANES["short"], out=out, say=lines.append)
    ChaosRun(settings).run()
    history = load_history(out)
    violations = check_history(history)
    write_report(out / "report.html", history, violations)
    assert not violations, (f"seed {SEED}, history in {out}", violations, lines)
    assert history.faults and history.heartbeats and history.operations
