"""Rows and text blocks that show findings to people. Pure."""

from holdfast.kafka.check.offset_finding import OffsetFinding, ResumeImpact

OFFSET_COLUMNS = ("topic", "partition", "saved", "earliest", "latest", "what happened", "lost", "vanished")
CHOICE_COLUMNS = ("if kept", "from earliest", "from latest", "safe offset")
COLUMNS = (*OFFSET_COLUMNS, *CHOICE_COLUMNS)
LEGEND = (
    "lost: records deleted before the job read them. vanished: records that the job has read and the log no longer has. "
    "+ means at least. if kept, from earliest, from latest: records that the job skips or repeats if it resumes there. "
    "safe offset: resuming there skips and repeats nothing"
)
ROWS_MAX = 50


def table_row(finding: OffsetFinding) -> tuple[str, ...]:
    """Return one cell for each of `COLUMNS`."""
    return (
        finding.topic,
        _number(finding.partition),
        _number(finding.saved),
        _number(finding.earliest),
        _number(finding.latest),
        finding.kind.label,
        _number(finding.lost, at_least=finding.lost_more),
        _number(finding.vanished, at_least=finding.vanished_more),
        _keep_cell(finding),
        _impact_cell(finding.from_earliest),
        _impact_cell(finding.from_latest),
        _number(finding.mends),
    )


def detail_lines(finding: OffsetFinding) -> tuple[str, ...]:
    """Return the cells of a row as lines of text, for terminals that are too narrow for the table."""
    cells = dict(zip(COLUMNS, table_row(finding), strict=True))
    return (
        f"{finding.subject}: {cells['what happened']}",
        f"saved {cells['saved']}, log from {cells['earliest']} to {cells['latest']}; "
        f"lost {cells['lost']}, vanished {cells['vanished']}",
        f"keep: {cells['if kept']}; earliest: {cells['from earliest']}; latest: {cells['from latest']}; "
        f"safe offset: {cells['safe offset']}",
    )


def _number(value: int | None, *, at_least: bool = False) -> str:
    return "-" if value is None else f"{value}{'+' if at_least else ''}"


def _keep_cell(finding: OffsetFinding) -> str:
    """Return the impact of keeping the saved offset, or "out of range" if Spark cannot resume there."""
    saved, earliest, latest = finding.saved, finding.earliest, finding.latest
    if saved is not None and earliest is not None and latest is not None and not earliest <= saved <= latest:
        return "out of range"
    return _impact_cell(finding.keep)


def _impact_cell(impact: ResumeImpact | None) -> str:
    if impact is None:
        return "-"
    parts = [(impact.skipped, "skips"), (impact.repeated, "repeats")]
    return ", ".join(f"{verb} {count}" for count, verb in parts if count) or "nothing"
