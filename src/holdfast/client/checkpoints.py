"""Verdicts on checkpoints at any location, without a cluster and without Spark."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.checkpoint import Finding, Query, judge_findings
from holdfast.storage import Checkpoints


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """Verdict on the checkpoint of one streaming query."""

    location: str
    """Path or URI of the query's checkpoint."""
    verdict: str
    """`whole`, `damaged` or `unknown`."""
    findings: tuple[Finding, ...]
    query: Query


def judge_location(location: str) -> list[CheckpointReport]:
    """Judge each checkpoint at or below a location. Return an empty list if there is none.

    Raises Unavailable, and Refused for an invalid location.
    """
    root = location if ":/" in location else str(Path(location).absolute())
    return [_report(root, query) for query in Checkpoints(root).judge_queries()]


def _report(root: str, query: Query) -> CheckpointReport:
    place = f"{root.rstrip('/')}/{query.place}".rstrip("/")
    return CheckpointReport(place, judge_findings(query.findings), query.findings, query)
