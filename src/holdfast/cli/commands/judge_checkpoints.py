"""`holdfast checkpoint`: judge checkpoints without a cluster and without Spark."""

import contextlib
import sys
import threading
from collections.abc import Iterator

import click

from holdfast.cli.options import NonEmptyText, json_option
from holdfast.cli.render.json_output import print_json
from holdfast.cli.terminal_callbacks import note
from holdfast.client.checkpoints import CheckpointReport, judge_location
from holdfast.errors import Refused

DAMAGED_EXIT, UNKNOWN_EXIT = 1, 3
SLOW_S = 2.0
"""Seconds after which a note says what is being read."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=NonEmptyText())
@json_option
def checkpoint(paths: tuple[str, ...], as_json: bool) -> None:
    """Judge streaming checkpoints: whole, damaged with the proof, or unknown.

    PATH is the checkpoint of a query or a folder with several, on a disk or at an address such as s3://BUCKET/PATH. Files are
    only read, without a cluster and without Spark.

    Exit code: 0 if all are whole, 1 if one is damaged or a PATH holds no checkpoint, 3 if none is damaged but one is unknown.
    """
    reports: list[CheckpointReport] = []
    failed = False
    for path in paths:
        try:
            with _note_if_slow(path):
                found = judge_location(path)
        except Refused as error:
            note(str(error))
            failed = True
            continue
        if not found:
            note(f"there is no checkpoint in {path}: expected a folder with 'metadata', 'offsets' and 'commits'")
        failed = failed or not found
        reports += found
    _print(reports, as_json=as_json)
    sys.exit(_exit_code(reports, failed=failed))


def _print(reports: list[CheckpointReport], *, as_json: bool) -> None:
    from holdfast.cli.render.checkpoint_report import print_reports, report_as_json

    if as_json:
        print_json([report_as_json(report) for report in reports])
    else:
        print_reports(reports)


def _exit_code(reports: list[CheckpointReport], *, failed: bool) -> int:
    verdicts = {report.verdict for report in reports}
    if failed or "damaged" in verdicts:
        return DAMAGED_EXIT
    return UNKNOWN_EXIT if "unknown" in verdicts else 0


@contextlib.contextmanager
def _note_if_slow(path: str) -> Iterator[None]:
    timer = threading.Timer(SLOW_S, note, (f"reading {path}…",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
