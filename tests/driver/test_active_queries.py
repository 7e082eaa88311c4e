"""What is known of a script's queries: which live, what one failed of, how far they are, and where a stream's thread is."""

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.driver.active_queries import Queries, wait_for
from holdfast.driver.graceful_stop import notice_waiting
from holdfast.driver.progress_report import Progress
from holdfast.driver.spark_query import Query, _Place
from tests.harness.waiting import eventually

pytestmark = pytest.mark.live


class FakeStreamingQuery:
    """As much of PySpark's as this package uses of one of Spark Connect."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.id = f"id-{id(self)}"
        self.isActive = True
        self.failure: Exception | None = None
        self.lastProgress: Any = None
        self.stops = 0

    def exception(self) -> Exception | None:
        return self.failure

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        if self.failure is not None:
            raise self.failure
        if timeout is None:
            eventually(lambda: not self.isActive, 10, "the end")
            return None
        threading.Event().wait(0.01)
        return not self.isActive

    def stop(self) -> None:
        self.stops += 1
        self.isActive = False

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.isActive = False

    def reports(self, batch: int, rows: int = 10, rate: float = 5.0, *, idle: bool = False, offset: Any = None) -> None:
        durations = {"latestOffset": 1} if idle else {"latestOffset": 1, "addBatch": 2}
        source = {"endOffset": batch if offset is None else offset, "numInputRows": rows, "processedRowsPerSecond": rate}
        text = {"batchId": batch, "durationMs": durations, "sources": [source]}
        self.lastProgress = type("Progress", (), {"json": json.dumps(text)})()


def test_queries_are_waited_for_until_the_last_has_ended() -> None:
    one, two = FakeStreamingQuery(), FakeStreamingQuery()
    queries = Queries()
    queries.add(one)
    queries.add(two)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (queries.wait(), done.set()), daemon=True)
    thread.start()
    one.isActive = False
    assert not done.wait(0.1)
    two.isActive = False
    assert done.wait(60)
    assert queries.live == []


def test_the_first_failure_is_raised_even_if_others_go_on() -> None:
    queries = Queries()
    queries.add(FakeStreamingQuery())
    bad = FakeStreamingQuery()
    queries.add(bad)
    bad.fail(ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        queries.wait()
    good = FakeStreamingQuery()
    with pytest.raises(ValueError, match="bad"):
        wait_for([good, bad])


def test_a_failure_that_nobody_waited_for_is_raised_at_the_end() -> None:
    queries, bad = Queries(), FakeStreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("long ago"))
    assert queries.look() == []
    with pytest.raises(ValueError, match="long ago"):
        queries.wait()


def test_a_failure_that_the_script_has_dealt_with_is_not() -> None:
    queries, bad = Queries(), FakeStreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("long ago"))
    queries.awaited = True
    queries.look()
    queries.wait()
    later = FakeStreamingQuery()
    queries.add(later)
    later.fail(ValueError("after the last line"))
    with pytest.raises(ValueError, match="after the last line"):
        queries.wait()


def test_what_this_package_asks_a_query_does_not_count_as_the_scripts_waiting() -> None:
    module = ModuleType("query")
    module.__dict__.update(
        StreamingQuery=type("StreamingQuery", (FakeStreamingQuery,), {"processAllAvailable": lambda self: None}),
        StreamingQueryManager=type("StreamingQueryManager", (), {"awaitAnyTermination": lambda self: None}),
    )
    queries = Queries()
    notice_waiting(module, queries)
    bad = module.StreamingQuery("bad")
    queries.add(bad)
    bad.fail(ValueError("unnoticed"))
    queries.look()
    assert not queries.awaited
    with pytest.raises(ValueError, match="unnoticed"):
        queries.wait()
    module.StreamingQueryManager().awaitAnyTermination()
    assert queries.awaited


def test_queries_started_for_ever_leave_nothing_behind() -> None:
    queries = Queries()
    for _ in range(1000):
        query = FakeStreamingQuery()
        queries.add(query)
        query.isActive = False
        queries.look()
    live, ended = queries.picture()
    assert live == [] and len(ended) == 1


def test_a_query_of_connect_is_stopped_once_and_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    fake = FakeStreamingQuery("clicks")
    query = Query(fake)
    query.tell()
    query.wake()
    query.tell()
    assert fake.stops == 1 and query.ended() and query.abrupt
    assert "the query clicks is stopped at once: with Spark Connect, a batch cannot be waited for" in capfd.readouterr().err


class Reported:
    """A progress file, and the queries that it is about."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "progress.json"
        self._progress = Progress(str(directory))
        self.queries = Queries()

    def start(self, name: str) -> FakeStreamingQuery:
        fake = FakeStreamingQuery(name)
        self.queries.add(fake)
        return fake

    def __call__(self) -> dict[str, Any]:
        self.queries.look()
        self._progress.report(*self.queries.picture())
        progress: dict[str, Any] = json.loads(self._file.read_text())
        return progress

    def written(self) -> int:
        return self._file.stat().st_mtime_ns


def test_progress_is_the_first_querys_batch_and_everybodys_rows_and_offsets(tmp_path: Path) -> None:
    reported = Reported(tmp_path)
    first, second = reported.start("first"), reported.start("second")
    first.reports(7, rate=100.0, offset={"topic": {"0": 12}})
    second.reports(3, rate=20.5, offset=99)
    assert reported() == {
        "batch_id": 7,
        "rows_per_second": 120.5,
        "offsets": [{"topic": {"0": 12}}, 99],
        "queries": [
            {"name": "first", "batch_id": 7, "rows_per_second": 100.0},
            {"name": "second", "batch_id": 3, "rows_per_second": 20.5},
        ],
    }


def test_a_trigger_without_data_is_no_batch_and_no_slowness(tmp_path: Path) -> None:
    reported = Reported(tmp_path)
    query = reported.start("q")
    query.reports(0, idle=True)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (None, None)
    query.reports(4, rate=100.0)
    query_before = reported()
    query.reports(5, rows=0, rate=0.0, idle=True)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (4, 100.0)
    assert query_before["batch_id"] == 4
    query.reports(5, rows=0, rate=0.0)
    assert (reported()["batch_id"], reported()["rows_per_second"]) == (5, 100.0), "a batch that only cleans up state"


def test_what_ended_together_stays_in_the_picture_and_what_ended_before_does_not(tmp_path: Path) -> None:
    reported = Reported(tmp_path)
    first, second = reported.start("first"), reported.start("second")
    first.reports(7)
    second.reports(3)
    reported()
    first.reports(8)
    first.isActive = False
    assert reported()["batch_id"] == 3, "the one that lives"
    second.isActive = False
    last = reported()
    assert (last["batch_id"], [query["batch_id"] for query in last["queries"]]) == (8, [8, 3])
    third = reported.start("third")
    third.reports(0)
    assert [query["name"] for query in reported()["queries"]] == ["third"]


def test_nothing_is_written_if_nothing_has_changed(tmp_path: Path) -> None:
    reported = Reported(tmp_path)
    query = reported.start("q")
    query.reports(1)
    reported()
    written = reported.written()
    reported()
    assert reported.written() == written
    query.reports(2)
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
    ("stack", "good", "plans", "sleeps"),
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
        "waits for its trigger",
        "has ended",
        "has begun to look for data",
        "waits for the lock to plan",
        "asks a source that sleeps",
        "found no data",
        "plans",
        "executes",
        "waits for the lock to commit",
    ],
)
def test_where_a_stream_is_decides_whether_it_may_be_told(stack: str, good: bool, plans: bool, sleeps: bool) -> None:
    place = _Place(stack)
    assert (place.good, place.plans, place.sleeps_between_batches) == (good, plans, sleeps)
