"""Scanning on Spark: a task for each part of the input. The same on a laptop and on a cluster.

It is an RDD, because nothing of it is a table: rows and Arrow would take seconds at the start, and longer for each task.
"""

import pickle
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow

from holdfast.errors import Refused
from holdfast.explain.gc_pause import spare_what_is_there, without_collector
from holdfast.explain.inputs import Input
from holdfast.explain.library import Added, library_of
from holdfast.explain.range_scan import Haul, scan
from holdfast.explain.scan.jit import COMPILED_FROM_BYTES
from holdfast.explain.scan.ranges import Range, Task, in_turns, tasks
from holdfast.explain.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.core.rdd import RDD
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.25
_MISSING = re.compile(r"No module named '([\w.]+)'|to read large logs, (numba) is needed")
_RAISED = re.compile(r"^(?:Caused by: )?((?:[\w.]+\.)?\w*(?:Error|Exception)): (\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    of: int
    begun: bool
    """Whether a worker has begun."""


def scanned(spark: "SparkSession", inputs: list[Input], added: Added, told: Callable[[Progress], None]) -> list[Haul]:
    """Every range of the inputs. `added`: formats and events of the user's own."""
    work = tasks(inputs)
    compiled = sum(one.size for one in inputs) >= COMPILED_FROM_BYTES
    if is_local(spark.sparkContext.master or ""):
        return _by_spark(spark, work, added, compiled, told)
    here, there = _dealt(work, inputs)
    found = _by_spark(spark, there, added, compiled, told)
    _check_opened(found, inputs)
    return [*found, scan(here, library_of(added), compiled=compiled)]


def _dealt(work: list[Task], inputs: list[Input]) -> tuple[list[Range], list[Task]]:
    """Copies that were made here are read here: workers on other machines cannot see them."""
    here = [range for task in work for range in task if inputs[range.file].spooled]
    there = [tuple(_marked(range, inputs) for range in task if not inputs[range.file].spooled) for task in work]
    return here, [task for task in there if task]


def _marked(range: Range, inputs: list[Input]) -> Range:
    """Every machine has a /var/log: what another one has there is not what was named."""
    return range._replace(beginning=inputs[range.file].beginning)


def _check_opened(found: Iterable[Haul], inputs: list[Input]) -> None:
    """A file that was there when it was named, and that a worker does not find or finds to be another, is only here."""
    for one in (one for haul in found for one in haul.ranges):
        file = inputs[one.range.file]
        if not one.opened and not file.remote:
            raise Refused(
                f"{file.name} is not there for Spark's workers, which read files themselves: put it on storage that all of "
                "them share, or leave out --master"
            )


def _by_spark(
    spark: "SparkSession", work: list[Task], added: Added, compiled: bool, told: Callable[[Progress], None]
) -> list[Haul]:
    if not work:
        return []
    dealt = [pickle.dumps(task) for task in in_turns(work, spark.sparkContext.defaultParallelism)]
    found = spark.sparkContext.parallelize(range(len(dealt)), len(dealt)).map(_scanner(dealt, added, compiled))
    collected = _collected(spark, found, len(dealt), told)
    with without_collector():
        return [pickle.loads(unpacked(one)) for one in collected]


def _scanner(work: list[bytes], added: Added, compiled: bool) -> Callable[[int], bytes]:
    """All of the work goes to each task, which unpacks its own: there may be many thousand files."""

    def scan_task(number: int) -> bytes:
        known = library_of(added)
        spare_what_is_there()
        with without_collector():
            return packed(pickle.dumps(scan(pickle.loads(work[number]), known, compiled=compiled)))

    return scan_task


def packed(data: bytes) -> bytes:
    """Events are much alike, and all of them are in Spark's memory at once."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> bytes:
    return bytes(pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd").read())


def _collected(spark: "SparkSession", found: "RDD[bytes]", count: int, told: Callable[[Progress], None]) -> list[bytes]:
    """On a thread of its own, so that what is done can be told meanwhile, and Ctrl-C ends it."""
    answer: list[bytes] = []
    trouble: list[Exception] = []
    over = threading.Event()
    group = "holdfast explain"

    def collect() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "holdfast explain", interruptOnCancel=True)
            answer.extend(found.collect())
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            trouble.append(error)
        finally:
            over.set()

    threading.Thread(target=collect, daemon=True).start()
    try:
        while not over.wait(LOOK_EVERY_S):
            done, running = _done(spark)
            told(Progress(done, count, begun=done + running > 0))
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    if trouble:
        raise Refused(failure(str(trouble[0]))) from trouble[0]
    told(Progress(count, count, begun=True))
    return answer


def _done(spark: "SparkSession") -> tuple[int, int]:
    """Tasks that are done, and that run."""
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numActiveTasks for stage in stages)


def failure(words: str) -> str:
    """One sentence of the pages that Spark says when a task fails: what was raised last is what began it."""
    if missing := _MISSING.search(words):
        module = missing[1] or missing[2]
        return (
            f"the Python of Spark's workers has no {module}: it needs numpy, pyarrow and numba (PYSPARK_PYTHON names another)"
        )
    raised = _RAISED.findall(words)
    said = f"{raised[-1][0].rsplit('.', 1)[-1]}: {raised[-1][1]}" if raised else words.strip().split("\n", 1)[0]
    return f"Spark could not read them: {said}"
