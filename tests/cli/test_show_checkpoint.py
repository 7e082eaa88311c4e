"""What `show` tells of a job's checkpoint, without a Spark; and that a storage that is away is one line."""

from pathlib import Path

import pytest

from holdfast.checkpoint import Known, KnownQuery
from holdfast.storage import Claims
from tests.harness.checkpoint_trees import checkpoint, lay_out, with_state
from tests.harness.command_line import answer, asked
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real


def root_of(cluster: LaidOut, job: str) -> Path:
    return cluster.storage / "checkpoints" / job


def line_of(cluster: LaidOut, words: str) -> str:
    return next(line for line in answer(cluster, "show", "j1").splitlines() if words in line)


def test_how_far_each_query_is_and_what_its_state_holds(cluster: LaidOut) -> None:
    cluster.submit("j1")
    lay_out(with_state(checkpoint(1234), 1234), root_of(cluster, "j1") / "words")
    line = line_of(cluster, "words: batch 1,233 committed, batch 1,234 planned, written ")
    assert line.endswith("state 0: 2.5 kB in 2 partitions, versions 1–1234")
    told = asked(cluster, "show", "j1")["checkpoint"]
    assert list(told) == ["location", "problem", "queries"]
    assert (told["location"], told["problem"]) == (str(root_of(cluster, "j1")), None)
    (query,) = told["queries"]
    assert (query["planned"], query["committed"], query["findings"]) == (1234, 1233, [])
    assert query["batches"][-1]["offsets"] == ['{"logOffset": 1234}']
    assert query["batches"][-1]["committed_at"] is None and query["batches"][-2]["committed_at"].endswith("Z")
    assert query["state"] == [{"number": 0, "partitions": 2, "version_min": 1, "version_max": 1234, "bytes": 2468}]


def test_findings_are_told_the_harmful_ones_first(cluster: LaidOut) -> None:
    cluster.submit("j1")
    lay_out({**checkpoint(5), "offsets/1": b"", "commits/4": b"v1"}, root_of(cluster, "j1"))
    lines = answer(cluster, "show", "j1").splitlines()
    found = [line.strip() for line in lines if "its query: " in line][1:]
    assert found[0].startswith("its query: commits/4 ends after its version")
    assert found[1] == "its query: (harmless) offsets/1 is empty; no batch needs it any more"
    findings = asked(cluster, "show", "j1")["checkpoint"]["queries"][0]["findings"]
    assert {(finding["file"], finding["harms"]) for finding in findings} == {("commits/4", True), ("offsets/1", False)}


def test_a_query_that_keeps_its_checkpoint_elsewhere_is_shown_with_its_sink(cluster: LaidOut, tmp_path: Path) -> None:
    cluster.submit("j1")
    elsewhere = str(tmp_path / "own place")
    lay_out(checkpoint(2), Path(elsewhere))
    Claims(str(root_of(cluster, "j1"))).leave_queries(Known((KnownQuery(elsewhere, "clicks", "parquet", "/out", 1),)))
    assert f"{elsewhere}: batch 1 committed" in answer(cluster, "show", "j1")
    (query,) = asked(cluster, "show", "j1")["checkpoint"]["queries"]
    assert (query["name"], query["sink"]) == ("clicks", {"format": "parquet", "path": "/out"})


def test_a_job_without_a_checkpoint_says_so(cluster: LaidOut) -> None:
    cluster.submit("j1")
    assert line_of(cluster, "  checkpoint").endswith("checkpoints/j1: there is none yet")
    assert asked(cluster, "show", "j1")["checkpoint"]["queries"] == []


def test_a_storage_that_is_away_is_one_line_and_no_error(cluster: LaidOut) -> None:
    cluster.submit("j1")
    root_of(cluster, "j1").parent.mkdir()
    root_of(cluster, "j1").write_text("in the way")
    assert "checkpoints/j1: cannot" in line_of(cluster, "  checkpoint")
    cluster.put(cluster.paths.storage, b"\xff not a place")
    assert "is not a location" in line_of(cluster, "  checkpoint")
    assert asked(cluster, "show", "j1")["checkpoint"]["location"] is None
