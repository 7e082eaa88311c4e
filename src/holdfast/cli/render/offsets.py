"""Print the findings about the Kafka offsets of a parked job, for `holdfast show`."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from holdfast.cli.render.sanitize import sanitize
from holdfast.client.timestamps import age, iso
from holdfast.kafka.check.findings_table import COLUMNS, LEGEND, ROWS_MAX, detail_lines, table_row
from holdfast.kafka.check.offset_finding import OffsetFinding
from holdfast.kafka.check.operator_choice import (
    ParkFindings,
)
from holdfast.zk.records.stored_job import StoredJob

WIDE = 10_000


def as_json(lost: ParkFindings | None) -> dict[str, Any] | None:
    """Return the findings as JSON. Scripts rely on these keys, which are the fields of OffsetFinding."""
    if lost is None:
        return None
    sources = [
        {"location": source.location, "source": source.number, "findings": [asdict(finding) for finding in source.findings]}
        for source in lost.sources
    ]
    return {"found_at": iso(lost.wall), "sources": sources}


def print_lost(screen: Console, job: StoredJob, lost: ParkFindings, now: float) -> None:
    found = sorted(lost.all_findings, key=_severity_key)
    screen.print(f"findings about its Kafka offsets, {age(lost.wall, now)} ago", style="bold")
    table = Table(*(Column(name, no_wrap=True) for name in COLUMNS), box=None, pad_edge=False)
    for finding in found[:ROWS_MAX]:
        table.add_row(*map(sanitize, table_row(finding)))
    if Measurement.get(screen, screen.options.update(width=WIDE), table).maximum <= screen.width:
        screen.print(table)
    else:  # a number must never be cut off
        for first, *rest in map(detail_lines, found[:ROWS_MAX]):
            screen.print(sanitize(first), *(f"\n  {sanitize(line)}" for line in rest), sep="")
    if len(found) > ROWS_MAX:
        screen.print(f"and {len(found) - ROWS_MAX:,} more (--json has all)")
    screen.print(LEGEND, style="dim")
    for finding in found[:3]:
        screen.print(f"  {sanitize(str(finding))}")
    screen.print(
        f"'holdfast resume {job.id} --offsets keep|earliest|latest|FILE' continues from the offsets you choose. FILE contains:"
    )
    screen.print('  {"topic": {"0": 17}}')


def _severity_key(finding: OffsetFinding) -> tuple[int, str, int]:
    return -finding.weight, finding.topic, finding.partition or 0
