"""Run `explain` in this process, without Spark."""

from pathlib import Path

from holdfast.explain.analyze import analyze
from holdfast.explain.inputs import find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.range_scan import scan_ranges
from holdfast.explain.report.answer import Answer
from holdfast.explain.scan.ranges import plan_tasks
from holdfast.explain.timeline.merge import MergedScan, merge_scans


def scan_files(*paths: Path | str, compiled: bool = False) -> MergedScan:
    files = find_inputs([str(path) for path in paths])
    library = load_library()
    return merge_scans(files, [scan_ranges(task, library, compiled=compiled) for task in plan_tasks(files)])


def explain_logs(*paths: Path | str) -> Answer:
    return analyze(scan_files(*paths), load_library())
