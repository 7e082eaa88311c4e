"""Verdicts on checkpoints at any location, without a cluster and without Spark."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.checkpoint import Finding, Query, judge_findings
from holdfast.checkpoint.finding import doubt
from holdfast.errors import Refused, Unavailable
from holdfast.storage import Checkpoints


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """Verdict on the checkpoint of one streaming query."""

    location: str
    """Path or URI of the query's checkpoint."""
    verdict: str
    """`whole`, `damaged` or `unknown`."""
    findings: tuple[Finding, ...]
    query: Query | None
    """Batches, offsets and state; None if the location cannot be read."""


def judge_location(location: str) -> list[CheckpointReport]:
    """Judge each checkpoint at or below a location. Return an empty list if there is none.

    A location that cannot be read is judged `unknown`. Raise Refused for an invalid location.
    """
    root = location if _is_uri(location) else os.path.abspath(location)
    if not _is_uri(location) and Path(root).is_file():
        raise Refused(f"{root} is a file, not the directory of a checkpoint")
    try:
        return [_report(root, query) for query in Checkpoints(root).judge_queries()]
    except Unavailable as error:
        reason = doubt("", str(error))
        return [CheckpointReport(root, judge_findings((reason,)), (reason,), None)]


def _is_uri(location: str) -> bool:
    return ":/" in location


def _report(root: str, query: Query) -> CheckpointReport:
    base, question_mark, parameters = root.partition("?") if _is_uri(root) else (root, "", "")
    place = f"{base.rstrip('/')}/{query.place}".rstrip("/")
    return CheckpointReport(f"{place}{question_mark}{parameters}", judge_findings(query.findings), query.findings, query)
