"""The whole of `explain`, without Spark: every range is scanned here."""

from pathlib import Path

from holdfast.explain.answer import Answer
from holdfast.explain.explain import answer
from holdfast.explain.gathered import Gathered, gathered
from holdfast.explain.inputs import inputs
from holdfast.explain.library import library
from holdfast.explain.scan import scan
from holdfast.explain.split import tasks


def read(*paths: Path | str, compiled: bool = False) -> Gathered:
    files = inputs([str(path) for path in paths])
    known = library()
    return gathered(files, [scan(task, known, compiled=compiled) for task in tasks(files)])


def asked(*paths: Path | str) -> Answer:
    return answer(read(*paths), library())
