"""A hundred labelled cases, each with other clocks, shapes and noise: what is found is there, and the other way round."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.explain.corpus import CASES, SEEDS
from tests.explain.scene import Scene
from tests.harness.explain_in_process import asked


def test_precision_and_recall_over_a_labelled_corpus(tmp_path: Path, report: Callable[[str], None]) -> None:
    found_right, found_wrong, missed = Counter[str](), Counter[str](), Counter[str]()
    misjudged = []
    for number, play in enumerate(play for play in CASES for _ in range(SEEDS)):
        directory = tmp_path / f"{number}"
        directory.mkdir()
        scene = Scene(number)
        must, may = play(scene)
        found = {one.signature for one in asked(*scene.write(directory)).diagnoses}
        found_right.update(found & must)
        found_wrong.update(found - must - may)
        missed.update(must - found)
        if found - must - may or must - found:
            misjudged.append(f"{play.__name__} with seed {number}: {sorted(found)}")
    right, wrong, away = found_right.total(), found_wrong.total(), missed.total()
    report(f"explain: {len(CASES) * SEEDS} cases, precision {right / (right + wrong):.3f}, recall {right / (right + away):.3f}")
    assert not misjudged
