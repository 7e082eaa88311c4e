"""Every kind of damage to every file of real checkpoints, one at a time: it is found, or known to be harmless.

`reason_harmless` lists the harmless damages. At the end a real Spark continues from a sample of damaged checkpoints: its
output must be right, and setting torn offsets aside must neither lose nor repeat a row.
"""

import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.checkpoint import CheckpointVerdict
from holdfast.checkpoint.file_tree import crc_path
from tests.checkpoint.damage import REMOVED, SWAPPED, Damage, all_damages
from tests.harness.spark_checkpoints import SparkQueryFolder, resume_all

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

KINDS = ["windows", "totals", "rows"]
WELL_FORMED = ("changed by one bit", SWAPPED, "cut after its first line")


def reason_harmless(query: SparkQueryFolder, damage: Damage) -> str | None:
    """Return the reason why undetected damage loses and repeats nothing, or None."""
    folder, _, name = damage.path.rpartition("/")
    if name.startswith("."):
        main = Damage(damage.root, f"{folder}/{name[1:-4]}".lstrip("/"), damage.how, checksums=damage.checksums)
        return reason_harmless(query, main) or "Hadoop ignores checksum files that are missing or have a wrong header"
    if not damage.other and _changes_nothing(damage):
        return "the file has only one line, so it is unchanged"
    if damage.other and (damage.root / damage.path).read_bytes() == (damage.root / damage.other).read_bytes():
        return "both files are identical"
    if damage.root == query.checkpoint and not any(_is_read(query, path) for path in (damage.path, damage.other) if path):
        return "no batch reads it any more"
    if folder == "offsets" and damage.how == REMOVED and not damage.checksums and query.newest_batch("commits") < int(name):
        return "nothing of that batch reached the sink, and Spark plans it again"
    if folder == "commits" and damage.how == REMOVED and not damage.checksums:
        return "a kill right before the commit has the same effect: the batch runs again, with the same input and state"
    return _reason_spark_tolerates(damage)


def _reason_spark_tolerates(damage: Damage) -> str | None:
    """Return the reason why Spark continues rightly from a file that it reads, or None."""
    folder = damage.path.rpartition("/")[0]
    if folder == "commits" and damage.how == SWAPPED:
        return "the commit of an earlier batch has a lower watermark, and Spark then uses that of the offsets"
    if damage.path.endswith(".delta") and damage.how == "lengthened" and not damage.checksums:
        return "Spark ignores data after the last block"
    if "_metadata/" in damage.path and damage.how == REMOVED and not damage.checksums:
        return "Spark writes it again"
    if folder == "commits" and damage.how == "cut after its first line":
        return "Spark reads it as a commit without a watermark, and uses that of the offsets"
    if damage.how == "lengthened" and (folder == "commits" or damage.path == "metadata") and not damage.checksums:
        return "Spark ignores text after the first JSON value"
    if damage.path.endswith("_metadata/metadata"):
        return "Spark continues without the metadata of an operator"
    if damage.path.endswith(".zip") and damage.how == "lengthened":
        return "a zip archive with data after its end is still complete"
    if not damage.checksums and (damage.how in WELL_FORMED or _only_spark_reads(damage.path)):
        return "a store without checksum files writes files atomically and checks them itself"
    return None


def _changes_nothing(damage: Damage) -> bool:
    with damage.applied():
        changed = damage.root / damage.path
        after = changed.read_bytes() if changed.exists() else None
    return after == (damage.root / damage.path).read_bytes()


def _only_spark_reads(path: str) -> bool:
    """Return True for formats that only Spark can read."""
    return path.endswith((".sst", "_metadata/schema"))


def _is_read(query: SparkQueryFolder, path: str) -> bool:
    """Return True if Spark reads the file when it starts. Derived from the logs, not from the code under test."""
    planned, committed = query.newest_batch("offsets"), query.newest_batch("commits")
    folder, _, name = path.rpartition("/")
    if folder == "offsets":
        return int(name) >= planned - 1
    if folder == "commits":
        return int(name) == committed
    if name.endswith(".zip"):
        return name == f"{committed + 1}.zip"
    if name.endswith(".sst"):
        with zipfile.ZipFile(query.checkpoint / folder / ".." / f"{committed + 1}.zip") as archive:
            return name in archive.read("metadata").decode()
    if name.endswith(".delta"):
        return int(name.removesuffix(".delta")) <= committed + 1
    return True


def judge_all_damages(query: SparkQueryFolder) -> tuple[Counter[str], list[str]]:
    """Return the number of each verdict, and the undetected damages that are not known to be harmless."""
    counts: Counter[str] = Counter()
    unexplained: list[str] = []
    for root in (query.checkpoint, *([query.sink_log] if query.known_query.writes_files else [])):
        for damage in all_damages(root):
            with damage.applied():
                verdict = query.judge()
            counts[_name(verdict)] += 1
            assert all(text.isprintable() for text in (*verdict.problems, *verdict.remarks, *verdict.doubts))
            found = verdict.problems or verdict.doubts or verdict.batch_to_set_aside is not None
            if not found and reason_harmless(query, damage) is None:
                unexplained.append(str(damage))
            if verdict.batch_to_set_aside is not None:
                newest = f"offsets/{verdict.batch_to_set_aside}"
                assert {damage.path, damage.other} & {newest, crc_path(newest)}
    return counts, unexplained


def _name(verdict: CheckpointVerdict) -> str:
    if verdict.problems or verdict.batch_to_set_aside is not None:
        return "parked" if verdict.problems else "set aside"
    return "unknown" if verdict.doubts else "fine"


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_to_a_completed_checkpoint_is_found_or_harmless(
    completed: dict[str, SparkQueryFolder], kind: str, report: Callable[[str], None]
) -> None:
    assert completed[kind].judge() == CheckpointVerdict()
    counts, unexplained = judge_all_damages(completed[kind])
    report(f"fuzz: {kind}, completed: {dict(counts)}")
    assert unexplained == [], "\n".join(unexplained)
    assert counts["set aside"] == 0, "the newest batch is committed"
    assert counts["parked"] > 100


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_after_a_kill_is_found_repaired_or_harmless(
    killed: dict[str, SparkQueryFolder], kind: str, report: Callable[[str], None]
) -> None:
    assert killed[kind].judge() == CheckpointVerdict()
    counts, unexplained = judge_all_damages(killed[kind])
    report(f"fuzz: {kind}, killed: {dict(counts)}")
    assert unexplained == [], "\n".join(unexplained)
    assert counts["set aside"] >= 10 and counts["parked"] > 100


class Sample:
    """Copies with one damage each, judged by Holdfast and then resumed by Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.queries: dict[str, SparkQueryFolder] = {}
        self.verdicts: dict[str, CheckpointVerdict] = {}

    def add(self, label: str, query: SparkQueryFolder, path: str = "", how: str = "", *, checksums: bool = True) -> None:
        copy = query.copy(self.root / f"{len(self.queries)}")
        if path:
            damage = Damage(copy.checkpoint, path, how, checksums=checksums)
            damage.apply()
        self.verdicts[label] = copy.repair()
        self.queries[label] = copy


def test_spark_resumes_from_a_sample_with_the_right_output(
    completed: dict[str, SparkQueryFolder], killed: dict[str, SparkQueryFolder], tmp_path: Path, report: Callable[[str], None]
) -> None:
    sample = Sample(tmp_path)
    last = {kind: query.newest_batch("offsets") for kind, query in killed.items()}
    for kind in KINDS:
        sample.add(f"{kind}: undamaged", completed[kind])
        sample.add(f"{kind}: killed", killed[kind])
        sample.add(f"{kind}: torn offsets", killed[kind], f"offsets/{last[kind]}", "cut in half")
        sample.add(f"{kind}: old offsets", completed[kind], "offsets/0", "filled with noise")
    sample.add("rows: lost commit", completed["rows"], f"commits/{last['rows']}", REMOVED, checksums=False)
    sample.add("rows: empty offsets without checksums", killed["rows"], f"offsets/{last['rows']}", "emptied", checksums=False)
    sample.add("totals: no schema", completed["totals"], "state/0/0/_metadata/schema", REMOVED, checksums=False)
    sample.add("totals: no operators", completed["totals"], "state/0/_metadata/metadata", REMOVED, checksums=False)

    results = resume_all(completed["rows"].folder.parent, sample.queries.values())
    assert not [result for result in results.values() if "failed" in result]
    expected = {kind: results[sample.queries[f"{kind}: undamaged"].folder]["output"] for kind in KINDS}
    assert len(expected["rows"]) == 50 and len({row[0] for row in expected["rows"]}) == 50, "each row of each file, once"
    for label, query in sample.queries.items():
        verdict, result = sample.verdicts[label], results[query.folder]
        assert not verdict.problems, label
        assert (verdict.batch_to_set_aside is not None) == ("offsets" in label and "old" not in label), label
        assert result.get("output") == expected[query.kind], (label, result.get("failed"))
    report(f"fuzz: Spark resumed {len(results)} damaged checkpoints with the right output")
