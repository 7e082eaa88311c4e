"""Rewrite of checkpoint offsets after an operator's choice: the partitions to move, and the new file contents. Pure.

The offsets of the last committed batch, or the starting offsets before any commit, say where the next batch begins. Spark
repeats a batch that is planned but not committed over the same offsets, because the sink may already have it. So the end of
that batch moves only if the new beginning is beyond it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.checkpoint import Query
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, parse_offsets
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity

KEEP, EARLIEST, LATEST = "keep", "earliest", "latest"
MISSING_KINDS = (FindingKind.TOPIC_DELETED, FindingKind.PARTITION_MISSING)
HEADER_LINES = 2
"""Lines before the sources in `offsets/N`: the version, and Spark's metadata."""


@dataclass(frozen=True, slots=True)
class OffsetMove:
    partition: Partition
    offset: int | None
    """New offset; None removes a partition that no longer exists from the checkpoint."""


def plan_moves(
    saved: Iterable[Partition], findings: Iterable[OffsetFinding], choice: str | Mapping[Partition, int]
) -> tuple[OffsetMove, ...]:
    """Return a move for each affected partition, or none if the choice is `keep`.

    Raise Refused if the choice names other partitions, misses one, or gives an offset outside the log.
    """
    affected = affected_partitions(saved, findings)
    if choice == KEEP:
        return ()
    if isinstance(choice, str):
        return tuple(
            OffsetMove(partition, _end_of_log(partition, affected[partition], choice)) for partition in sorted(affected)
        )
    if others := sorted(set(choice) - set(affected)):
        raise Refused(f"cannot move {', '.join(map(str, others))}: only partitions in the findings table can be moved")
    if missing := sorted(set(affected) - set(choice)):
        raise Refused(f"no offset given for {', '.join(map(str, missing))}: the file must name every affected partition")
    return tuple(
        OffsetMove(partition, _require_in_log(partition, affected[partition], offset))
        for partition, offset in sorted(choice.items())
    )


def affected_partitions(saved: Iterable[Partition], findings: Iterable[OffsetFinding]) -> dict[Partition, OffsetFinding]:
    """Return the finding of each partition that an operator must choose for.

    A finding about a topic affects all its saved partitions.
    """
    affected: dict[Partition, OffsetFinding] = {}
    partitions = sorted(saved)
    for finding in findings:
        if finding.weight > Severity.NOTE:
            all_of_topic = [partition for partition in partitions if partition.topic == finding.topic]
            named = all_of_topic if finding.partition is None else [Partition(finding.topic, finding.partition)]
            affected |= dict.fromkeys(named, finding)
    return affected


def _end_of_log(partition: Partition, finding: OffsetFinding, choice: str) -> int | None:
    if finding.kind in MISSING_KINDS:
        return None
    if finding.earliest is None or finding.latest is None:
        raise Refused(f"the brokers did not report the offsets of {partition}: choose '{KEEP}' to check it again")
    return finding.earliest if choice == EARLIEST else finding.latest


def _require_in_log(partition: Partition, finding: OffsetFinding, offset: int) -> int:
    if finding.earliest is None or finding.latest is None:
        raise Refused(f"no offset can be chosen for {partition}: the brokers did not report its log")
    if not finding.earliest <= offset <= finding.latest:
        raise Refused(
            f"offset {offset} is outside the log of {partition}, which goes from {finding.earliest} to {finding.latest}"
        )
    return offset


def parse_chosen_offsets(text: str) -> dict[Partition, int]:
    """Parse an operator's file, `{"topic": {"0": 17}}`, in the format of Spark's offsets. Raise Refused."""
    offsets = parse_offsets(text)
    if not offsets:
        raise Refused('expected offsets such as {"topic": {"0": 17}}')
    return offsets


def files_to_rewrite(query: Query, folder: int, name: str = "") -> tuple[str, ...]:
    """Return the checkpoint files with the source's offsets: first the beginning, then the end of a planned batch.

    `folder` is the number in `sources/`, unless the source has a name. A source that is used twice has two lines in
    `offsets/N`, but one folder.
    """
    beginning = f"offsets/{query.committed}" if query.committed is not None else f"sources/{name or folder}/0"
    planned = query.planned is not None and query.planned != query.committed
    return (beginning, f"offsets/{query.planned}") if planned else (beginning,)


def rewrite_offsets(
    query: Query,
    source: int,
    moves: Iterable[OffsetMove],
    files: Mapping[str, str],
    *,
    folder: int | None = None,
    name: str = "",
) -> dict[str, str]:
    """Return the new content of each file that changes, the end of a batch before its beginning.

    Raise Refused if a file has no Kafka offsets for the source.
    """
    beginning, *ends = files_to_rewrite(query, source if folder is None else folder, name)
    targets = {move.partition: move.offset for move in moves}
    changed: dict[str, str] = {}
    for path in ends:
        changed[path] = _move_offsets(files[path], path, source, name, targets, only_forward=True)
    changed[beginning] = _move_offsets(files[beginning], beginning, source, name, targets, only_forward=False)
    return {path: text for path, text in changed.items() if text != files[path]}


def _move_offsets(
    text: str, path: str, source: int, name: str, targets: Mapping[Partition, int | None], *, only_forward: bool
) -> str:
    """Return the text with moved offsets. `source` is the position of the source, `name` its name, if it has one."""
    lines = text.split("\n")
    number, label = _find_line(lines, source, name) if path.startswith("offsets/") else (1, "")
    offsets = parse_offsets(lines[number].removeprefix(label)) if number < len(lines) else None
    if offsets is None:
        raise Refused(f"{path} has no Kafka offsets in line {number + 1}, so the offsets were not changed")
    for partition, offset in targets.items():
        if offset is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = max(offset, offsets.get(partition, 0)) if only_forward else offset
    lines[number] = label + _encode_offsets(offsets)
    return "\n".join(lines)


def _find_line(lines: list[str], source: int, name: str) -> tuple[int, str]:
    """Return the line of a source in `offsets/N`, and the text before its offsets: version 2 has the name in each line."""
    if lines[0].strip() != "v2":
        return HEADER_LINES + source, ""
    for label in (f"{name}:", f"{source}:"):
        for number in range(HEADER_LINES, len(lines)):
            if len(label) > 1 and lines[number].startswith(label):
                return number, label
    return len(lines), ""


def _encode_offsets(offsets: Mapping[Partition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.number)] = offsets[partition]
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)
