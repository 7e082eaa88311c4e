"""Limits of a query: sources that cannot be resumed, the location of the checkpoint, and the notes for operators."""

import json
from pathlib import Path

import pytest

from holdfast.driver.queries.query_limits import create_temporary_checkpoint, describe_limits, needs_temporary_checkpoint
from holdfast.driver.queries.query_registry import StartedQueries
from holdfast.driver.queries.streaming_sources import StreamingSource
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.runner.execution.control_reader import ControlReader


class ClassicWriter:
    _df = None


class ConnectWriter:
    pass


class Query:
    name = None

    def __init__(self, id: str) -> None:
        self.id = id


def source(format: str) -> StreamingSource:
    return StreamingSource(0, 0, format, "", {})


def limits(*formats: str, trigger: Trigger = MICRO_BATCH, temporary: bool = False, asynchronous: bool = False) -> str:
    sentences = describe_limits(
        "'q'",
        [source(format) for format in formats],
        trigger,
        temporary_checkpoint=temporary,
        asynchronous=asynchronous,
        outlives_driver=False,
    )
    return "; ".join(sentences)


@pytest.mark.parametrize("format", ["socket", "org.apache.spark.sql.execution.streaming.sources.textsocketsourceprovider"])
def test_query_that_reads_only_sockets_gets_a_temporary_checkpoint(format: str) -> None:
    assert needs_temporary_checkpoint(ClassicWriter(), [source(format), source("socket")])


@pytest.mark.parametrize("formats", [(), ("kafka",), ("rate",), ("rate-micro-batch",), ("socket", "kafka")])
def test_query_with_a_resumable_source_keeps_its_checkpoint(formats: tuple[str, ...]) -> None:
    assert not needs_temporary_checkpoint(ClassicWriter(), [source(format) for format in formats])


def test_remote_connect_server_gets_no_directory_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    assert not needs_temporary_checkpoint(ConnectWriter(), [source("socket")])
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert needs_temporary_checkpoint(ConnectWriter(), [source("socket")])


def test_temporary_checkpoints_are_separate_directories() -> None:
    first, second = create_temporary_checkpoint(), create_temporary_checkpoint()
    assert first != second
    for uri in (first, second):
        path = Path(uri.removeprefix("file://"))
        assert path.is_dir()
        path.rmdir()


def test_operators_are_told_about_each_limit() -> None:
    assert limits("kafka") == ""
    assert "cannot be resumed (socket)" in limits("socket", temporary=True)
    assert "its checkpoint is temporary" in limits("socket", temporary=True)
    assert "Spark may refuse to continue its checkpoint" in limits("socket")
    assert "each restart writes its last rows again" in limits("kafka", asynchronous=True)
    assert "last epoch again" in limits("kafka", trigger=Trigger("continuous"))
    assert limits("kafka", trigger=Trigger("real-time", 300.0)).endswith("of the query 'q': up to 300 s")


def test_queries_without_a_lasting_checkpoint_are_all_recorded(tmp_path: Path) -> None:
    started = StartedQueries(str(tmp_path))
    started.record(Query("one"), None, "console", "", note="first")
    started.record(Query("two"), None, "console", "", trigger=Trigger("real-time", 5.0))
    entries = json.loads((tmp_path / "queries.json").read_text())["queries"]
    assert [(entry["label"], entry["note"], entry["batch_s"]) for entry in entries] == [("one", "first", 0.0), ("two", "", 5.0)]


def test_note_names_a_failed_query_until_it_starts_again(tmp_path: Path) -> None:
    """Otherwise a job of which one query has failed looks healthy."""
    started = StartedQueries(str(tmp_path))
    reader = ControlReader(tmp_path)
    started.record(Query("good"), "/checkpoints/good", "noop", "")
    started.record(Query("bad"), "/checkpoints/bad", "console", "", note="a limit")
    started.report_failures(["bad"])
    started.report_failures(["bad"])
    assert reader.query_note() == "the query bad has failed, and the script continues without it; a limit"
    started.record(Query("bad"), "/checkpoints/bad", "console", "")
    assert reader.query_note() == ""
