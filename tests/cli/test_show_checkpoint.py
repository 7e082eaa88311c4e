"""`holdfast show`: status of the checkpoint, read without Spark, also while the storage is unavailable."""

from pathlib import Path

import pytest

from holdfast.checkpoint import KnownQueries, KnownQuery
from holdfast.storage import Claims
from tests.harness.checkpoint_trees import checkpoint_files, with_state, write_files
from tests.harness.command_line import run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real


def root_of(cluster: PreparedCluster, job: str) -> Path:
    return cluster.storage / "checkpoints" / job


def line_of(cluster: PreparedCluster, words: str) -> str:
    return next(line for line in run_ok(cluster, "show", "j1").splitlines() if words in line)


def test_position_and_state_of_each_query_are_shown(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    write_files(with_state(checkpoint_files(1234), 1234), root_of(cluster, "j1") / "words")
    line = line_of(cluster, "words: batch 1,233 committed, batch 1,234 planned, written ")
    assert line.endswith("state 0: 2.5 kB in 2 partitions, versions 1–1234")
    reported = run_json(cluster, "show", "j1")["checkpoint"]
    assert list(reported) == ["location", "problem", "queries"]
    assert (reported["location"], reported["problem"]) == (str(root_of(cluster, "j1")), None)
    (query,) = reported["queries"]
    assert (query["planned"], query["committed"], query["findings"]) == (1234, 1233, [])
    assert query["batches"][-1]["offsets"] == ['{"logOffset": 1234}']
    assert query["batches"][-1]["committed_at"] is None and query["batches"][-2]["committed_at"].endswith("Z")
    assert query["state"] == [{"number": 0, "partitions": 2, "version_min": 1, "version_max": 1234, "bytes": 2468}]


def test_name_that_the_encoding_of_this_machine_lacks_is_a_problem_of_the_status(
    cluster: PreparedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is read in a thread: its traceback was printed, and the status was empty."""
    cluster.submit("j1")
    elsewhere = str(tmp_path / "wörter")
    write_files(checkpoint_files(2), Path(elsewhere))
    Claims(str(root_of(cluster, "j1"))).save_known_queries(KnownQueries((KnownQuery(elsewhere, "clicks", "noop", "", 1),)))
    for variable, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setenv(variable, value)
    assert "cannot be read here: 'ascii' codec" in run_ok(cluster, "show", "j1")
    assert "'ascii' codec" in run_json(cluster, "show", "j1")["checkpoint"]["problem"]


def test_harmful_findings_are_shown_first(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    write_files({**checkpoint_files(5), "offsets/1": b"", "commits/4": b"v1\n{"}, root_of(cluster, "j1"))
    lines = run_ok(cluster, "show", "j1").splitlines()
    found = [line.strip() for line in lines if "its query: " in line][1:]
    assert found[0].startswith("its query: commits/4 ")
    assert found[1] == "its query: (harmless) offsets/1 is empty; no batch needs it any more"
    findings = run_json(cluster, "show", "j1")["checkpoint"]["queries"][0]["findings"]
    assert {(finding["file"], finding["harms"]) for finding in findings} == {("commits/4", True), ("offsets/1", False)}


def test_query_with_checkpoint_elsewhere_is_shown_with_its_sink(cluster: PreparedCluster, tmp_path: Path) -> None:
    cluster.submit("j1")
    elsewhere = str(tmp_path / "own place")
    write_files(checkpoint_files(2), Path(elsewhere))
    Claims(str(root_of(cluster, "j1"))).save_known_queries(
        KnownQueries((KnownQuery(elsewhere, "clicks", "parquet", "/out", 1),))
    )
    assert f"{elsewhere}: batch 1 committed" in run_ok(cluster, "show", "j1")
    (query,) = run_json(cluster, "show", "j1")["checkpoint"]["queries"]
    assert (query["name"], query["sink"]) == ("clicks", {"format": "parquet", "path": "/out"})


def test_missing_checkpoint_is_reported(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    assert line_of(cluster, "  checkpoint").endswith("checkpoints/j1: there is no checkpoint yet")
    assert run_json(cluster, "show", "j1")["checkpoint"]["queries"] == []


def test_unavailable_storage_is_one_line_and_no_error(cluster: PreparedCluster) -> None:
    cluster.submit("j1")
    root_of(cluster, "j1").parent.mkdir()
    root_of(cluster, "j1").write_text("in the way")
    assert "checkpoints/j1: cannot" in line_of(cluster, "  checkpoint")
    cluster.put(cluster.paths.storage, b"\xff not a place")
    assert "is not a location" in line_of(cluster, "  checkpoint")
    assert run_json(cluster, "show", "j1")["checkpoint"]["location"] is None
