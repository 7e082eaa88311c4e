"""Print the status of a job's checkpoint, for `holdfast show`."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from holdfast.checkpoint import Finding, KnownQueries, Query
from holdfast.checkpoint.finding import DAMAGED, REMARK, UNKNOWN
from holdfast.client.jobs.checkpoint_status import CheckpointStatus
from holdfast.client.timestamps import age, iso
from holdfast.model.plural import format_count

FINDINGS_SHOWN = 5
_PREFIXES = {DAMAGED: "", UNKNOWN: "(cannot be judged) ", REMARK: "(harmless) "}


def as_json(status: CheckpointStatus) -> dict[str, Any]:
    """Return the status as JSON. Scripts rely on these keys."""
    return {
        "location": status.location,
        "problem": status.problem,
        "queries": [_query_as_json(location, query, status.known) for location, query in status.queries],
    }


def _query_as_json(location: str, query: Query, known: KnownQueries) -> dict[str, Any]:
    entry = known.find(location)
    return {
        "location": location,
        "name": entry.name or None if entry is not None else None,
        "sink": {"format": entry.format, "path": entry.path or None} if entry is not None and entry.format else None,
        "id": query.id or None,
        "planned": query.planned,
        "committed": query.committed,
        "modified_at": iso(query.modified_wall_s),
        "batches": [
            {
                "number": batch.number,
                "planned_at": iso(batch.planned_wall_s),
                "committed_at": iso(batch.committed_wall_s),
                "watermark_ms": batch.watermark_ms,
                "offsets": list(batch.offsets),
            }
            for batch in query.batches
        ],
        "state": [asdict(operator) for operator in query.operators],
        "findings": [finding_as_json(each) for each in query.findings],
    }


def finding_as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON. `effect` and `spark` are None unless the finding proves damage."""
    return {
        "file": finding.file,
        "problem": finding.problem,
        "kind": finding.kind,
        "harms": finding.harms,
        "rule": finding.rule or None,
        "effect": finding.effect or None,
        "spark": finding.spark or None,
    }


def facts(status: CheckpointStatus, now: float, *, ended: bool) -> list[tuple[str, str]]:
    """Return (key, text) lines for `holdfast show`."""
    where = status.location or "?"
    lines = [("checkpoint", f"{where}: {status.problem}" if status.problem is not None else where)]
    if status.problem is None and not status.queries:
        lines = [
            ("checkpoint", f"{where}: the job has written no checkpoint" if ended else f"{where}: there is no checkpoint yet")
        ]
    for location, query in status.queries:
        place = location.removeprefix(f"{status.location}/") if location != status.location else "its query"
        lines.append(("", f"{place}: {', '.join(summarize_query(query, now))}"))
        worst = sorted(query.findings, key=lambda finding: (DAMAGED, UNKNOWN, REMARK).index(finding.kind))
        lines += [("", f"{place}: {_PREFIXES[each.kind]}{each}") for each in worst[:FINDINGS_SHOWN]]
        if len(worst) > FINDINGS_SHOWN:
            lines.append(("", f"{place}: and {format_count(len(worst) - FINDINGS_SHOWN, 'more finding')} (--json has all)"))
    return lines


def summarize_query(query: Query, now: float) -> Iterator[str]:
    """Yield phrases about the batches and the state of a query."""
    if query.committed is None:
        yield "no batch committed yet"
    else:
        yield f"batch {query.committed:,} committed"
    if query.planned is not None and query.planned != query.committed:
        yield f"batch {query.planned:,} planned"
    if query.modified_wall_s is not None:
        yield f"written {age(query.modified_wall_s, now)} ago"
    for operator in query.operators:
        versions = f"{operator.version_min}–{operator.version_max}" if operator.version_max is not None else "none"
        partitions = format_count(operator.partitions, "partition")
        yield f"state {operator.number}: {_size(operator.bytes)} in {partitions}, versions {versions}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
