"""Every file of real checkpoints, damaged in every way, one at a time: it is found, or known to be harmless.

What is harmless, and why, stands in `harmless`. At the end a real Spark judges a sample: what passes gives the right output,
and what is set aside loses and repeats no row.
"""

import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.checkpoint import Verdict
from holdfast.checkpoint.file_tree import crc_of
from tests.checkpoint.damage import REMOVED, SWAPPED, Damage, damages
from tests.harness.spark_checkpoints import Place, resumed

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

KINDS = ["windows", "totals", "rows"]
WELL_FORMED = ("changed by one bit", SWAPPED, "cut after its first line")


def harmless(place: Place, damage: Damage) -> str | None:
    """Why nothing can be lost or repeated although nothing was found."""
    folder, _, name = damage.path.rpartition("/")
    if name.startswith("."):
        main = Damage(damage.root, f"{folder}/{name[1:-4]}".lstrip("/"), damage.how, checksums=damage.checksums)
        return harmless(place, main) or "Hadoop passes over checksums that are not there, or that do not begin as they should"
    if not damage.other and _unchanged(damage):
        return "it has only one line, so nothing was cut"
    if damage.other and (damage.root / damage.path).read_bytes() == (damage.root / damage.other).read_bytes():
        return "both are the same"
    if damage.root == place.checkpoint and not any(_is_read(place, path) for path in (damage.path, damage.other) if path):
        return "no batch reads it any more"
    if folder == "offsets" and damage.how == REMOVED and not damage.checksums and place.newest("commits") < int(name):
        return "nothing of that batch took effect, and it is planned again"
    if folder == "commits" and damage.how == REMOVED and not damage.checksums:
        return "so does a kill right before the commit: the batch runs again, with the same input and state"
    if "_metadata/" in damage.path and damage.how == REMOVED and not damage.checksums:
        return "Spark writes it anew"
    if damage.path.endswith(".zip") and damage.how == "lengthened":
        return "an archive is read from its beginning, and all of it is there"
    if not damage.checksums and (damage.how in WELL_FORMED or _opaque(damage.path)):
        return "a store that keeps no checksums beside its files shows whole files only, and checks them itself"
    return None


def _unchanged(damage: Damage) -> bool:
    with damage.done():
        changed = damage.root / damage.path
        after = changed.read_bytes() if changed.exists() else None
    return after == (damage.root / damage.path).read_bytes()


def _opaque(path: str) -> bool:
    """What only Spark can read."""
    return path.endswith((".sst", "_metadata/schema"))


def _is_read(place: Place, path: str) -> bool:
    """Whether a Spark that starts from the checkpoint reads it: by its logs, and not by the code under test."""
    planned, committed = place.newest("offsets"), place.newest("commits")
    folder, _, name = path.rpartition("/")
    if folder == "offsets":
        return int(name) >= planned - 1
    if folder == "commits":
        return int(name) == committed
    if name.endswith(".zip"):
        return name == f"{committed + 1}.zip"
    if name.endswith(".sst"):
        with zipfile.ZipFile(place.checkpoint / folder / ".." / f"{committed + 1}.zip") as archive:
            return name in archive.read("metadata").decode()
    if name.endswith(".delta"):
        return int(name.removesuffix(".delta")) <= committed + 1
    return True


def judged(place: Place) -> tuple[Counter[str], list[str]]:
    """How often each verdict was given, and which damages passed without a reason."""
    counts: Counter[str] = Counter()
    unexplained: list[str] = []
    for root in (place.checkpoint, *([place.log] if place.known.writes_files else [])):
        for damage in damages(root):
            with damage.done():
                verdict = place.judged()
            counts[_name(verdict)] += 1
            assert all(problem.isprintable() for problem in (*verdict.problems, *verdict.remarks))
            if not verdict.problems and verdict.aside is None and harmless(place, damage) is None:
                unexplained.append(str(damage))
            if verdict.aside is not None:
                newest = f"offsets/{verdict.aside}"
                assert {damage.path, damage.other} & {newest, crc_of(newest)}
    return counts, unexplained


def _name(verdict: Verdict) -> str:
    return "parked" if verdict.problems else "fine" if verdict.aside is None else "set aside"


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_to_a_checkpoint_at_rest_is_found_or_harmless(
    made: dict[str, Place], kind: str, report: Callable[[str], None]
) -> None:
    assert made[kind].judged() == Verdict()
    counts, unexplained = judged(made[kind])
    report(f"fuzz: {kind}, at rest: {dict(counts)}")
    assert unexplained == []
    assert counts["set aside"] == 0, "its newest batch is committed"
    assert counts["parked"] > 100


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_to_a_checkpoint_after_a_kill_is_found_mended_or_harmless(
    killed: dict[str, Place], kind: str, report: Callable[[str], None]
) -> None:
    assert killed[kind].judged() == Verdict()
    counts, unexplained = judged(killed[kind])
    report(f"fuzz: {kind}, killed: {dict(counts)}")
    assert unexplained == []
    assert counts["set aside"] >= 10 and counts["parked"] > 100


class Sample:
    """Copies with one damage each, to be judged by us and then by Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places: dict[str, Place] = {}
        self.verdicts: dict[str, Verdict] = {}

    def add(self, label: str, place: Place, path: str = "", how: str = "", *, checksums: bool = True) -> None:
        copy = place.copied(self.root / f"{len(self.places)}")
        if path:
            damage = Damage(copy.checkpoint, path, how, checksums=checksums)
            damage.inflict()
        self.verdicts[label] = copy.mended()
        self.places[label] = copy


def test_spark_agrees(made: dict[str, Place], killed: dict[str, Place], tmp_path: Path, report: Callable[[str], None]) -> None:
    sample = Sample(tmp_path)
    last = {kind: place.newest("offsets") for kind, place in killed.items()}
    for kind in KINDS:
        sample.add(f"{kind}: whole", made[kind])
        sample.add(f"{kind}: killed", killed[kind])
        sample.add(f"{kind}: torn offsets", killed[kind], f"offsets/{last[kind]}", "cut in half")
        sample.add(f"{kind}: old offsets", made[kind], "offsets/0", "filled with noise")
    sample.add("rows: lost commit", made["rows"], f"commits/{last['rows']}", REMOVED, checksums=False)
    sample.add("rows: empty offsets without checksums", killed["rows"], f"offsets/{last['rows']}", "emptied", checksums=False)
    sample.add("totals: no schema", made["totals"], "state/0/0/_metadata/schema", REMOVED, checksums=False)
    sample.add("totals: no operators", made["totals"], "state/0/_metadata/metadata", REMOVED, checksums=False)

    results = resumed(made["rows"].folder.parent, sample.places.values())
    assert not [result for result in results.values() if "failed" in result]
    expected = {kind: results[sample.places[f"{kind}: whole"].folder]["output"] for kind in KINDS}
    assert len(expected["rows"]) == 50 and len({row[0] for row in expected["rows"]}) == 50, "each row of each file, once"
    for label, place in sample.places.items():
        verdict, result = sample.verdicts[label], results[place.folder]
        assert not verdict.problems, label
        assert (verdict.aside is not None) == ("offsets" in label and "old" not in label), label
        assert result.get("output") == expected[place.kind], (label, result.get("failed"))
    report(f"fuzz: Spark went on from {len(results)} damaged checkpoints with the right output")
