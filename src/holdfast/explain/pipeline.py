"""Scanning on Spark: a task for each part of the input, a row for each range. The same on a laptop and on a cluster."""

import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.explain.inputs import Input
from holdfast.explain.library import library
from holdfast.explain.scan import Scanned, scan
from holdfast.explain.split import Task, tasks
from holdfast.explain.sweep import COMPILED_FROM_BYTES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    of: int


def scanned(
    spark: "SparkSession", inputs: list[Input], added: tuple[str, ...], told: Callable[[Progress], None]
) -> list[Scanned]:
    """Every range of the inputs, in order. `added`: files with formats and events of the user's own."""
    work = tasks(inputs)
    if not work:
        return []
    compiled = sum(one.size for one in inputs) >= COMPILED_FROM_BYTES
    rows = spark.range(0, len(work), 1, len(work)).mapInArrow(_scanner(work, added, compiled), "task long, found binary")
    collected = _collected(spark, rows, len(work), told)
    in_order = sorted(collected, key=lambda row: row["task"])
    return [found for row in in_order for found in pickle.loads(row["found"])]


def _scanner(work: list[Task], added: tuple[str, ...], compiled: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def scan_tasks(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow

        known = library(added)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = pickle.dumps([scan(range, known, compiled=compiled) for range in work[number]])
                yield pyarrow.RecordBatch.from_arrays(
                    [pyarrow.array([number], pyarrow.int64()), pyarrow.array([found], pyarrow.binary())], ["task", "found"]
                )

    return scan_tasks


def _collected(spark: "SparkSession", rows: Any, count: int, told: Callable[[Progress], None]) -> list[Any]:
    """On a thread of its own, so that what is done can be told meanwhile, and Ctrl-C ends it."""
    answer: list[Any] = []
    trouble: list[BaseException] = []
    over = threading.Event()
    group = "holdfast explain"

    def collect() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "holdfast explain", interruptOnCancel=True)
            answer.extend(rows.collect())
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            trouble.append(error)
        finally:
            over.set()

    threading.Thread(target=collect, daemon=True).start()
    try:
        while not over.wait(LOOK_EVERY_S):
            told(Progress(_done(spark, group), count))
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    if trouble:
        raise trouble[0]
    told(Progress(count, count))
    return answer


def _done(spark: "SparkSession", group: str) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
