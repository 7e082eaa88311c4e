"""Active queries of a script: waiting, failures, progress, and the position of a stream's thread."""

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.driver.queries.active_queries import ActiveQueries, wait_for_queries
from holdfast.driver.queries.classic_query import _StackPosition
from holdfast.driver.queries.connect_query import ConnectQuery
from holdfast.driver.queries.progress_report import ProgressReporter
from holdfast.driver.queries.stop_hooks import record_script_waits
from holdfast.driver.queries.triggers import Trigger
from holdfast.runner.execution.control_reader import ControlReader
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.live


class FakeStreamingQuery:
    """Fake of PySpark's Connect query, with the members that the driver uses."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.id = f"id-{id(self)}"
        self.isActive = True
        self.failure: Exception | None = None
        self.lastProgress: Any = None
        self.status = {"isTriggerActive": True}
        self.stops = 0

    def exception(self) -> Exception | None:
        return self.failure

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        if self.failure is not None:
            raise self.failure
        if timeout is None:
            wait_until(lambda: not self.isActive, 10, "the query ends")
            return None
        threading.Event().wait(0.01)
        return not self.isActive

    def stop(self) -> None:
        self.stops += 1
        self.isActive = False

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.isActive = False

    def set_progress(self, batch: int, rows: int = 10, rate: float = 5.0, *, idle: bool = False, offset: Any = None) -> None:
        durations = {"latestOffset": 1} if idle else {"latestOffset": 1, "addBatch": 2}
        source = {"endOffset": batch if offset is None else offset, "numInputRows": rows, "processedRowsPerSecond": rate}
        text = {"batchId": batch, "durationMs": durations, "sources": [source]}
        self.lastProgress = type("Progress", (), {"json": json.dumps(text)})()


def test_wait_for_all_returns_after_the_last_query_ended() -> None:
    one, two = FakeStreamingQuery(), FakeStreamingQuery()
    queries = ActiveQueries()
    queries.add(one)
    queries.add(two)
    done = threading.Event()

    def wait() -> None:
        queries.wait_for_all()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    one.isActive = False
    assert not done.wait(0.1)
    two.isActive = False
    assert done.wait(60)
    assert queries.live == []


def test_first_failure_is_raised_while_other_queries_are_active() -> None:
    queries = ActiveQueries()
    queries.add(FakeStreamingQuery())
    bad = FakeStreamingQuery()
    queries.add(bad)
    bad.fail(ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        queries.wait_for_all()
    good = FakeStreamingQuery()
    with pytest.raises(ValueError, match="bad"):
        wait_for_queries([good, bad])


def test_failure_before_the_wait_is_raised_by_the_wait() -> None:
    queries, bad = ActiveQueries(), FakeStreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("long ago"))
    assert queries.refresh() == []
    with pytest.raises(ValueError, match="long ago"):
        queries.wait_for_all()


def test_failure_is_not_raised_again_if_the_script_waited_itself() -> None:
    queries, bad = ActiveQueries(), FakeStreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("long ago"))
    queries.awaited_by_script = True
    queries.refresh()
    queries.wait_for_all()
    later = FakeStreamingQuery()
    queries.add(later)
    later.fail(ValueError("after the last line"))
    with pytest.raises(ValueError, match="after the last line"):
        queries.wait_for_all()


def test_failure_lasts_until_a_query_with_the_same_name_starts() -> None:
    queries, bad = ActiveQueries(), FakeStreamingQuery("bad")
    queries.add(FakeStreamingQuery("good"))
    queries.add(bad)
    bad.fail(ValueError("no"))
    queries.refresh()
    assert (queries.lasting_failures(0), queries.lasting_failures(60)) == (["bad"], [])
    queries.add(FakeStreamingQuery("bad"))
    assert queries.lasting_failures(0) == []


def test_calls_of_holdfast_do_not_count_as_waiting_of_the_script() -> None:
    module = ModuleType("query")
    module.__dict__.update(
        StreamingQuery=type("StreamingQuery", (FakeStreamingQuery,), {"processAllAvailable": lambda self: None}),
        StreamingQueryManager=type("StreamingQueryManager", (), {"awaitAnyTermination": lambda self: None}),
    )
    queries = ActiveQueries()
    record_script_waits(module, queries)
    bad = module.StreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("unnoticed"))
    queries.refresh()
    assert not queries.awaited_by_script
    with pytest.raises(ValueError, match="unnoticed"):
        queries.wait_for_all()
    module.StreamingQueryManager().awaitAnyTermination()
    assert queries.awaited_by_script


def test_ended_queries_are_not_accumulated() -> None:
    queries = ActiveQueries()
    for _ in range(1000):
        query = FakeStreamingQuery()
        queries.add(query)
        query.isActive = False
        queries.refresh()
    live, ended = queries.snapshot()
    assert live == [] and len(ended) == 1


def test_remote_connect_query_is_stopped_once_and_after_its_batch() -> None:
    fake = FakeStreamingQuery("clicks")
    fake.set_progress(3)
    query = ConnectQuery(fake)
    query.request_stop()
    query.request_stop()
    assert fake.stops == 0 and not query.stopped_abruptly
    fake.set_progress(4)
    query.request_stop()
    query.request_stop()
    assert fake.stops == 1 and query.has_ended() and query.stopped_abruptly


def test_remote_connect_query_between_two_triggers_is_stopped_at_once() -> None:
    fake = FakeStreamingQuery("clicks")
    fake.status = {"isTriggerActive": False}
    ConnectQuery(fake).request_stop()
    assert fake.stops == 1


@pytest.mark.parametrize(("trigger", "urgent"), [(Trigger("continuous"), False), (Trigger(), True)])
def test_remote_connect_query_does_not_wait_for_a_batch_that_never_ends_or_must_not_end(trigger: Trigger, urgent: bool) -> None:
    fake = FakeStreamingQuery("clicks")
    ConnectQuery(fake, trigger).request_stop(urgent=urgent)
    assert fake.stops == 1


class ReportedProgress:
    """Progress file with the queries that it reports."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "progress.json"
        self.reporter = ProgressReporter(str(directory))
        self.queries = ActiveQueries()

    def start(self, name: str) -> FakeStreamingQuery:
        fake = FakeStreamingQuery(name)
        self.queries.add(fake)
        return fake

    def __call__(self) -> dict[str, Any]:
        self.queries.refresh()
        self.reporter.report(*self.queries.snapshot())
        progress: dict[str, Any] = json.loads(self._file.read_text())
        return progress

    def write_time_ns(self) -> int:
        return self._file.stat().st_mtime_ns


def test_progress_has_the_batch_of_the_first_query_and_the_rows_and_offsets_of_all(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    first, second = reported.start("first"), reported.start("second")
    first.set_progress(7, rate=100.0, offset={"topic": {"0": 12}})
    second.set_progress(3, rate=20.5, offset=99)
    assert reported() == {
        "batch_id": 7,
        "rows_per_second": 120.5,
        "offsets": [{"topic": {"0": 12}}, 99],
        "offset_queries": ["first", "second"],
        "queries": [
            {"name": "first", "batch_id": 7, "rows_per_second": 100.0},
            {"name": "second", "batch_id": 3, "rows_per_second": 20.5},
        ],
    }


def test_ended_query_adds_no_rate_while_another_is_active(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    first, second = reported.start("first"), reported.start("second")
    first.set_progress(7, rate=100.0)
    second.set_progress(3, rate=20.5)
    first.isActive = False
    assert reported()["rows_per_second"] == 20.5
    second.isActive = False
    assert reported()["rows_per_second"] == 120.5


def test_progress_of_a_source_with_eleven_thousand_partitions_reaches_the_runner_without_its_offsets(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    query = reported.start("many")
    query.set_progress(7, rate=100.0, offset={"topic": {str(partition): 10**12 for partition in range(11_000)}})
    reported()
    progress = ControlReader(tmp_path).progress()
    assert progress is not None
    assert (progress.batch_id, progress.rows_per_second) == (7, 100.0)
    assert [json.loads(offset).startswith("omitted, because its size is") for offset in progress.offsets] == [True]
    assert ControlReader(tmp_path).query_batches() == {"many": 7}


def test_trigger_without_data_changes_neither_batch_nor_rate(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    query = reported.start("q")
    query.set_progress(0, idle=True)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (None, None)
    query.set_progress(4, rate=100.0)
    query_before = reported()
    query.set_progress(5, rows=0, rate=0.0, idle=True)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (4, 100.0)
    assert query_before["batch_id"] == 4
    query.set_progress(5, rows=0, rate=0.0)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (5, 100.0), "a batch without rows keeps the rate"


def test_rates_are_withdrawn_until_spark_answers_again(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    reported.start("q").set_progress(4, rate=100.0)
    assert reported()["rows_per_second"] == 100.0
    reported.reporter.withdraw_rates()
    withdrawn = json.loads((tmp_path / "progress.json").read_text())
    assert (withdrawn["batch_id"], withdrawn["rows_per_second"]) == (4, None)
    assert [query["rows_per_second"] for query in withdrawn["queries"]] == [None]
    assert reported()["rows_per_second"] == 100.0


def test_ended_queries_are_reported_until_the_next_start(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    first, second = reported.start("first"), reported.start("second")
    first.set_progress(7)
    second.set_progress(3)
    reported()
    first.set_progress(8)
    first.isActive = False
    assert reported()["batch_id"] == 3, "the batch of the active query"
    second.isActive = False
    last = reported()
    assert (last["batch_id"], [query["batch_id"] for query in last["queries"]]) == (8, [8, 3])
    third = reported.start("third")
    third.set_progress(0)
    assert [query["name"] for query in reported()["queries"]] == ["third"]


def test_unchanged_progress_is_not_written_again(tmp_path: Path) -> None:
    reported = ReportedProgress(tmp_path)
    query = reported.start("q")
    query.set_progress(1)
    reported()
    written = reported.write_time_ns()
    reported()
    assert reported.write_time_ns() == written
    query.set_progress(2)
    assert reported()["batch_id"] == 2


BATCHES = "at app//org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution."
STREAM = f"at app//x.ProcessingTimeExecutor.execute(TriggerExecutor.scala:83)\n{BATCHES}runActivatedStream(M.scala:716)"
RUN = f"{BATCHES}runBatch(MicroBatchExecution.scala:1409)\n"
ONE = f"{BATCHES}executeOneBatch(MicroBatchExecution.scala:736)\n"
LOCKED = f"{BATCHES}withProgressLocked(MicroBatchExecution.scala:1)\n"
NEXT = f"{BATCHES}constructNextBatch(MicroBatchExecution.scala:1)\n"
SLEEP = "at java.base@17.0.15/java.lang.Thread.sleep(Native Method)\n"
SQL = "at app//org.apache.spark.sql.execution.SQLExecution$.withNewExecutionId(SQLExecution.scala:317)\n"
HEAD = "java.lang.Throwable\n"


@pytest.mark.parametrize(
    ("stack", "safe_to_stop", "planning", "sleeps"),
    [
        (HEAD + SLEEP + STREAM, True, False, True),
        (HEAD, True, False, False),
        (HEAD + ONE + STREAM, False, False, False),
        (HEAD + LOCKED + NEXT + ONE + STREAM, False, False, False),
        (HEAD + SLEEP + NEXT + ONE + STREAM, False, False, False),
        (HEAD + SLEEP + ONE + STREAM, True, False, False),
        (HEAD + RUN + ONE + STREAM, False, True, False),
        (HEAD + SQL + RUN + ONE + STREAM, True, False, False),
        (HEAD + LOCKED + RUN + ONE + STREAM, True, False, False),
    ],
    ids=[
        "waiting for its trigger",
        "ended",
        "starting to look for data",
        "waiting for the lock to plan",
        "asking a sleeping source",
        "no data found",
        "planning",
        "executing",
        "waiting for the lock to commit",
    ],
)
def test_stack_position_decides_whether_a_stop_is_safe(stack: str, safe_to_stop: bool, planning: bool, sleeps: bool) -> None:
    position = _StackPosition(stack)
    assert (position.safe_to_stop, position.planning, position.sleeps_between_batches) == (safe_to_stop, planning, sleeps)
