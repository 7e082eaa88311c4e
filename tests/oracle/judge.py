"""Verdict of Holdfast on the checkpoint of a query."""

from dataclasses import dataclass

from holdfast.checkpoint import KnownQuery, Query, judge_query
from holdfast.client.checkpoints import judge_location
from holdfast.storage import examine_file_sink
from tests.oracle.program import Program
from tests.oracle.scene import QueryScene

WHOLE, DAMAGED, UNKNOWN = "whole", "damaged", "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: str
    """`whole`, `damaged` or `unknown`."""
    detail: str = ""


def judge(program: Program, scene: QueryScene) -> Judgement:
    """Judge a checkpoint, and the log of the sink if the query writes files."""
    reports = judge_location(str(scene.checkpoint))
    if not reports:
        return Judgement(UNKNOWN, "no query is found")
    (report,) = reports
    judgement = Judgement(report.verdict, "; ".join(map(str, report.findings)))
    if program.sink != "parquet" or judgement.verdict == DAMAGED:
        return judgement
    in_sink = _judge_sink(report.query, scene)
    return judgement if in_sink.verdict == WHOLE else in_sink


def _judge_sink(query: Query | None, scene: QueryScene) -> Judgement:
    """Judge as a runner does, which knows the output folder."""
    known = KnownQuery(str(scene.checkpoint), "query", "parquet", str(scene.out))
    verdict = judge_query(query, known, examine_file_sink(str(scene.out)))
    for answer, reasons in ((DAMAGED, verdict.problems), (UNKNOWN, verdict.doubts)):
        if reasons:
            return Judgement(answer, "; ".join(reasons))
    return Judgement(WHOLE)
