"""The whole of `explain`, without Spark: every range is scanned here."""

from pathlib import Path

from holdfast.explain.analyze import answer
from holdfast.explain.inputs import inputs
from holdfast.explain.library import library
from holdfast.explain.range_scan import scan
from holdfast.explain.report.answer import Answer
from holdfast.explain.scan.ranges import tasks
from holdfast.explain.timeline.merge import Gathered, gathered


def read(*paths: Path | str, compiled: bool = False) -> Gathered:
    files = inputs([str(path) for path in paths])
    known = library()
    return gathered(files, [scan(task, known, compiled=compiled) for task in tasks(files)])


def asked(*paths: Path | str) -> Answer:
    return answer(read(*paths), library())
