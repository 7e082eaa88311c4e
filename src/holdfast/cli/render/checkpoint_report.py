"""Print verdicts on checkpoints, for `holdfast checkpoint`."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from holdfast.checkpoint.compatibility import readable_by
from holdfast.checkpoint.finding import DAMAGED, UNKNOWN, Finding
from holdfast.checkpoint.query import Query
from holdfast.cli.render.checkpoint import finding_as_json, summarize_query
from holdfast.cli.render.sanitize import sanitize
from holdfast.client.checkpoints import CheckpointReport
from holdfast.client.timestamps import iso

_LABELS = {DAMAGED: "damage", UNKNOWN: "cannot judge"}
OFFSET_SHOWN = 200


def report_as_json(report: CheckpointReport) -> dict[str, Any]:
    """Return a report as JSON. Scripts rely on `location`, `verdict` and `findings`."""
    query = report.query
    more = _query_as_json(query) if query is not None else {}
    findings = [finding_as_json(finding) for finding in report.findings]
    return {"location": report.location, "verdict": report.verdict, "findings": findings, **more}


def _query_as_json(query: Query) -> dict[str, Any]:
    newest = query.batches[-1] if query.batches else None
    versions = readable_by(query)
    return {
        "id": query.id or None,
        "planned": query.planned,
        "committed": query.committed,
        "modified_at": iso(query.modified_wall_s),
        "mode": query.mode or None,
        "watermark_ms": newest.watermark_ms if newest is not None else None,
        "offsets": [
            {"source": source, "offset": offset}
            for source, offset in (zip(newest.sources, newest.offsets, strict=False) if newest is not None else ())
        ],
        "state": [asdict(operator) for operator in query.operators],
        "formats": {"offsets": query.formats.offsets, "commits": query.formats.commits},
        "spark": {"oldest": versions.oldest, "reason": versions.reason or None},
    }


def print_reports(reports: list[CheckpointReport]) -> None:
    for report in reports:
        click.echo(f"{report.verdict:<8} {sanitize(report.location)}")
        for line in _lines(report):
            click.echo(f"         {sanitize(line)}")


def _lines(report: CheckpointReport) -> Iterator[str]:
    query = report.query
    if query is not None:
        yield ", ".join(summarize_query(query, time.time()))
        newest = query.batches[-1] if query.batches else None
        for source, offset in zip(newest.sources, newest.offsets, strict=False) if newest is not None else ():
            yield f"source {source}: {offset if len(offset) <= OFFSET_SHOWN else offset[:OFFSET_SHOWN] + '… (--json has all)'}"
        versions = readable_by(query)
        if versions.oldest is None:
            yield "Spark: not known which versions read it"
        else:
            reason = f", because of {versions.reason}" if versions.reason else ""
            yield f"Spark: {versions.oldest} and later read these formats{reason}"
    yield from map(_describe, report.findings)


def _describe(finding: Finding) -> str:
    text = f"{_LABELS.get(finding.kind, 'remark')}: {str(finding).strip()}"
    return f"{text} [{finding.effect}: {finding.spark}]" if finding.rule else text
