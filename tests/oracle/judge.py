"""Asks Holdfast for its verdict on the checkpoint of a query."""

from dataclasses import dataclass

from holdfast.checkpoint import KnownQuery, Query, judge_query
from holdfast.client.checkpoints import judge_location
from holdfast.storage import examine_file_sink
from tests.oracle.program import Program
from tests.oracle.scene import Scene

WHOLE, DAMAGED, UNKNOWN = "whole", "damaged", "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: str
    """`whole`, `damaged` or `unknown`."""
    detail: str = ""


def judge(program: Program, scene: Scene) -> Judgement:
    """Judge a checkpoint, and the log of the sink if the query writes files."""
    reports = judge_location(str(scene.checkpoint))
    if not reports:
        return Judgement(UNKNOWN, "no query is found")
    (report,) = reports
    if program.sink == "parquet" and (problems := _problems_of_sink(report.query, scene)):
        return Judgement(DAMAGED, "; ".join(problems))
    return Judgement(report.verdict, "; ".join(map(str, report.findings)))


def _problems_of_sink(query: Query, scene: Scene) -> tuple[str, ...]:
    """Return what a runner finds, which knows the output folder."""
    known = KnownQuery(str(scene.checkpoint), "query", "parquet", str(scene.out))
    return judge_query(query, known, examine_file_sink(str(scene.out))).problems
