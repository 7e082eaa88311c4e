"""The findings as a table for people. Pure."""

from collections.abc import Iterable, Sequence

from holdfast.kafka.check.offset_finding import Consequence, Finding

SIGHTED = ("topic", "partition", "saved", "earliest", "latest", "what happened", "lost", "vanished")
CHOICES = ("if kept", "from earliest", "from latest", "from")
COLUMNS = (*SIGHTED, *CHOICES)
LEGEND = (
    "lost: gone, and never read. vanished: read, and not in the log any more. A + means: at least. "
    "The columns after that: what going on from there would skip of what is in the log, or read twice; "
    "'from' is the offset that does neither"
)
ROWS_MAX = 50


def table(findings: Iterable[Finding]) -> str:
    """One row for each, and below them what the columns mean."""
    found = list(findings)
    rows = [row(finding) for finding in found[:ROWS_MAX]]
    widths = [max(len(cells[column]) for cells in (COLUMNS, *rows)) for column in range(len(COLUMNS))]
    lines = [_line(cells, widths) for cells in (COLUMNS, *rows)]
    if len(found) > ROWS_MAX:
        lines.append(f"and {len(found) - ROWS_MAX:,} more")
    return "\n".join((*lines, LEGEND))


def row(finding: Finding) -> tuple[str, ...]:
    """As many cells as there are columns."""
    return (
        finding.topic,
        _number(finding.partition),
        _number(finding.saved),
        _number(finding.earliest),
        _number(finding.latest),
        finding.kind.value,
        _number(finding.lost, more=finding.lost_more),
        _number(finding.vanished, more=finding.vanished_more),
        _kept(finding),
        _choice(finding.from_earliest),
        _choice(finding.from_latest),
        _number(finding.mends),
    )


def block(finding: Finding) -> tuple[str, ...]:
    """The same in lines, for where a row would have to be cut."""
    cells = dict(zip(COLUMNS, row(finding), strict=True))
    return (
        f"{finding.where}: {cells['what happened']}",
        f"saved {cells['saved']}, the log goes from {cells['earliest']} to {cells['latest']}; "
        f"lost {cells['lost']}, vanished {cells['vanished']}",
        f"keep: {cells['if kept']}; earliest: {cells['from earliest']}; latest: {cells['from latest']}; "
        f"neither skips nor repeats: {cells['from']}",
    )


def _number(value: int | None, *, more: bool = False) -> str:
    return "-" if value is None else f"{value}{'+' if more else ''}"


def _kept(finding: Finding) -> str:
    """Spark cannot go on from where there is no log, whatever anybody chooses."""
    saved, earliest, latest = finding.saved, finding.earliest, finding.latest
    if saved is not None and earliest is not None and latest is not None and not earliest <= saved <= latest:
        return "out of range"
    return _choice(finding.keep)


def _choice(consequence: Consequence | None) -> str:
    if consequence is None:
        return "-"
    parts = [(consequence.skipped, "skips"), (consequence.repeated, "repeats")]
    return ", ".join(f"{verb} {count}" for count, verb in parts if count) or "nothing"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
