"""A hundred labelled synthetic cases with different clocks, formats and noise: all diagnoses are correct and complete."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.explain.corpus import SEEDS, SITUATIONS
from tests.harness.explain_in_process import explain_logs
from tests.harness.log_scene import LogScene


@pytest.mark.slow
def test_precision_and_recall_over_a_labelled_corpus(tmp_path: Path, report: Callable[[str], None]) -> None:
    found_right, found_wrong, missed = Counter[str](), Counter[str](), Counter[str]()
    misjudged = []
    for number, play in enumerate(play for play in SITUATIONS for _ in range(SEEDS)):
        directory = tmp_path / f"{number}"
        directory.mkdir()
        scene = LogScene(number)
        must, may = play(scene)
        found = {one.signature for one in explain_logs(*scene.write(directory)).diagnoses}
        found_right.update(found & must)
        found_wrong.update(found - must - may)
        missed.update(must - found)
        if found - must - may or must - found:
            misjudged.append(f"{play.__name__} with seed {number}: {sorted(found)}")
    right, wrong, not_found = found_right.total(), found_wrong.total(), missed.total()
    report(
        f"explain: {len(SITUATIONS) * SEEDS} cases, precision {right / (right + wrong):.3f}, "
        f"recall {right / (right + not_found):.3f}"
    )
    assert not misjudged
