"""Run the scan on Spark, on one machine or on a cluster.

It uses an RDD of bytes: rows and Arrow would take seconds more at the start, and longer for each task.
"""

import pickle
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow

from holdfast.errors import Refused
from holdfast.explain.gc_pause import freeze_existing_objects, gc_disabled
from holdfast.explain.inputs import InputFile
from holdfast.explain.library import AddedText, parse_library
from holdfast.explain.range_scan import TaskScan, scan_ranges
from holdfast.explain.scan.jit import COMPILE_MIN_BYTES
from holdfast.explain.scan.ranges import ByteRange, ScanTask, batch_tasks, plan_tasks
from holdfast.explain.spark.spark_session import is_local

if TYPE_CHECKING:
    from pyspark.core.rdd import RDD
    from pyspark.sql import SparkSession

PROGRESS_INTERVAL_S = 0.25
_MISSING = re.compile(r"No module named '([\w.]+)'|to read large logs, (numba) is needed")
_EXCEPTION = re.compile(r"^(?:Caused by: )?((?:[\w.]+\.)?\w*(?:Error|Exception)): (\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ScanProgress:
    done: int
    total: int
    started: bool
    """True once a worker has started a task."""


def scan_on_spark(
    spark: "SparkSession", inputs: list[InputFile], added: AddedText, on_progress: Callable[[ScanProgress], None]
) -> list[TaskScan]:
    """Scan all inputs. `added` is the text of the user's own library files.

    Raise Refused if Spark fails, or if its workers do not see a file."""
    tasks = plan_tasks(inputs)
    compiled = sum(one.size for one in inputs) >= COMPILE_MIN_BYTES
    if is_local(spark.sparkContext.master or ""):
        return _run_tasks(spark, tasks, added, compiled, on_progress)
    here, there = _separate_temporary(tasks, inputs)
    scans = _run_tasks(spark, there, added, compiled, on_progress)
    _check_opened(scans, inputs)
    return [*scans, scan_ranges(here, parse_library(added), compiled=compiled)]


def _separate_temporary(tasks: list[ScanTask], inputs: list[InputFile]) -> tuple[list[ByteRange], list[ScanTask]]:
    """Separate temporary copies, which only this machine can read, from the files that workers read."""
    here = [range for task in tasks for range in task if inputs[range.file].is_temporary]
    there = [tuple(_with_prefix(range, inputs) for range in task if not inputs[range.file].is_temporary) for task in tasks]
    return here, [task for task in there if task]


def _with_prefix(range: ByteRange, inputs: list[InputFile]) -> ByteRange:
    """Add the first bytes of the file: a worker may have another file at the same path, for example in /var/log."""
    return range._replace(expected_prefix=inputs[range.file].prefix)


def _check_opened(scans: Iterable[TaskScan], inputs: list[InputFile]) -> None:
    """Raise Refused if a worker could not open a file that exists here."""
    for one in (one for task in scans for one in task.ranges):
        file = inputs[one.range.file]
        if not one.was_opened and not file.is_remote:
            raise Refused(
                f"Spark's workers cannot read {file.name}: put it on storage that all of them share, or run without --master"
            )


def _run_tasks(
    spark: "SparkSession", tasks: list[ScanTask], added: AddedText, compiled: bool, on_progress: Callable[[ScanProgress], None]
) -> list[TaskScan]:
    if not tasks:
        return []
    batches = [pickle.dumps(task) for task in batch_tasks(tasks, spark.sparkContext.defaultParallelism)]
    rdd = spark.sparkContext.parallelize(range(len(batches)), len(batches)).map(_task_function(batches, added, compiled))
    results = _collect(spark, rdd, len(batches), on_progress)
    with gc_disabled():
        return [pickle.loads(decompress(one)) for one in results]


def _task_function(batches: list[bytes], added: AddedText, compiled: bool) -> Callable[[int], bytes]:
    """Return the function of a Spark task. Each task gets all batches and unpickles only its own: there may be thousands."""

    def scan_task(number: int) -> bytes:
        library = parse_library(added)
        freeze_existing_objects()
        with gc_disabled():
            return compress(pickle.dumps(scan_ranges(pickle.loads(batches[number]), library, compiled=compiled)))

    return scan_task


def compress(data: bytes) -> bytes:
    """Compress the result of a task: events are similar, and Spark holds all results in memory at once."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def decompress(data: bytes) -> bytes:
    return bytes(pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd").read())


def _collect(spark: "SparkSession", rdd: "RDD[bytes]", count: int, on_progress: Callable[[ScanProgress], None]) -> list[bytes]:
    """Collect on a separate thread, so that progress is reported meanwhile and Ctrl-C cancels the job."""
    results: list[bytes] = []
    failures: list[Exception] = []
    finished = threading.Event()
    group = "holdfast explain"

    def collect() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "holdfast explain", interruptOnCancel=True)
            results.extend(rdd.collect())
        except Exception as error:  # noqa: BLE001 -- raised again in the waiting thread
            failures.append(error)
        finally:
            finished.set()

    threading.Thread(target=collect, daemon=True).start()
    try:
        while not finished.wait(PROGRESS_INTERVAL_S):
            done, running = _task_counts(spark)
            on_progress(ScanProgress(done, count, started=done + running > 0))
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    if failures:
        raise Refused(describe_failure(str(failures[0]))) from failures[0]
    on_progress(ScanProgress(count, count, started=True))
    return results


def _task_counts(spark: "SparkSession") -> tuple[int, int]:
    """Return the number of completed and of running tasks."""
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numActiveTasks for stage in stages)


def describe_failure(message: str) -> str:
    """Reduce the message of a failed Spark job to one sentence. The last exception in it is the first cause."""
    if missing := _MISSING.search(message):
        module = missing[1] or missing[2]
        return (
            f"the Python of Spark's workers has no {module}: install numpy, pyarrow and numba there, "
            "or name another Python in PYSPARK_PYTHON"
        )
    exceptions = _EXCEPTION.findall(message)
    reason = f"{exceptions[-1][0].rsplit('.', 1)[-1]}: {exceptions[-1][1]}" if exceptions else message.strip().split("\n", 1)[0]
    return f"Spark could not read the logs: {reason}"
