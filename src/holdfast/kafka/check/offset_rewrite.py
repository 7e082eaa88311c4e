"""Going on from other offsets: which partitions, from where, and which files of a checkpoint then say what. Pure.

Where the next batch begins stands in the offsets of the last committed batch or, before any, in what the source noted when it
began. A batch that was planned and not committed is repeated by Spark over the same offsets, because its sink may have taken
it already: so its end is only moved where the new beginning is beyond it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.checkpoint import Query
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, offsets_in
from holdfast.kafka.check.offset_finding import Finding, Kind, Weight

KEEP, EARLIEST, LATEST = "keep", "earliest", "latest"
NOT_THERE = (Kind.DELETED, Kind.GONE)
HEADER_LINES = 2
"""The version and Spark's own notes come before the sources, in the offsets of a batch."""


@dataclass(frozen=True, slots=True)
class Move:
    partition: Partition
    to: int | None
    """None if there is no such partition any more: nothing is said of it from now on."""


def moves(saved: Iterable[Partition], findings: Iterable[Finding], choice: str | Mapping[Partition, int]) -> tuple[Move, ...]:
    """For exactly the partitions that something is wrong with. None at all if the saved offsets are kept.

    Raises Refused for a choice that these partitions do not have.
    """
    wrong = wrong_ones(saved, findings)
    if choice == KEEP:
        return ()
    if isinstance(choice, str):
        return tuple(Move(partition, _end(partition, finding, choice)) for partition, finding in sorted(wrong.items()))
    if strangers := sorted(set(choice) - set(wrong)):
        raise Refused(f"nothing is wrong with {', '.join(map(str, strangers))}: only what the table names can be moved")
    if missing := sorted(set(wrong) - set(choice)):
        raise Refused(f"no offset is given for {', '.join(map(str, missing))}")
    return tuple(Move(partition, _within(partition, wrong[partition], to)) for partition, to in sorted(choice.items()))


def wrong_ones(saved: Iterable[Partition], findings: Iterable[Finding]) -> dict[Partition, Finding]:
    """What is wrong with each partition that a person chooses for. What is wrong with a topic is wrong with all of them."""
    wrong: dict[Partition, Finding] = {}
    known = sorted(saved)
    for finding in findings:
        if finding.weight > Weight.NOTE:
            of_all = [partition for partition in known if partition.topic == finding.topic]
            named = of_all if finding.partition is None else [Partition(finding.topic, finding.partition)]
            wrong |= dict.fromkeys(named, finding)
    return wrong


def _end(partition: Partition, finding: Finding, choice: str) -> int | None:
    if finding.kind in NOT_THERE:
        return None
    if finding.earliest is None or finding.latest is None:
        raise Refused(f"what there is of {partition} was not answered: '{KEEP}' lets it be looked at again")
    return finding.earliest if choice == EARLIEST else finding.latest


def _within(partition: Partition, finding: Finding, to: int) -> int:
    if finding.earliest is None or finding.latest is None:
        raise Refused(f"there is nothing of {partition} to go on from")
    if not finding.earliest <= to <= finding.latest:
        raise Refused(f"{to} is not in the log of {partition}, which goes from {finding.earliest} to {finding.latest}")
    return to


def read_choice(text: str) -> dict[Partition, int]:
    """From what a person wrote: `{"topic": {"0": 17}}`, as Spark writes offsets. Raises Refused."""
    found = offsets_in(text)
    if not found:
        raise Refused('expected offsets such as {"topic": {"0": 17}}')
    return found


def to_read(query: Query, folder: int) -> tuple[str, ...]:
    """The files, below the checkpoint, that say where the source stands: the beginning, and the end if one is planned.

    Its folder has its own number: a source that is used twice has two lines in a file of offsets, and one folder.
    """
    begins = f"offsets/{query.committed}" if query.committed is not None else f"sources/{folder}/0"
    planned = query.planned is not None and query.planned != query.committed
    return (begins, f"offsets/{query.planned}") if planned else (begins,)


def rewritten(
    query: Query, source: int, moved: Iterable[Move], files: Mapping[str, str], *, folder: int | None = None
) -> dict[str, str]:
    """Those of the files that change, the end before the beginning. Raises Refused if one is not what it should be."""
    begins, *ends = to_read(query, source if folder is None else folder)
    to = {move.partition: move.to for move in moved}
    changed: dict[str, str] = {}
    for path in ends:
        changed[path] = _with(files[path], path, source, to, at_least=True)
    changed[begins] = _with(files[begins], begins, source, to, at_least=False)
    return {path: text for path, text in changed.items() if text != files[path]}


def _with(text: str, path: str, source: int, to: Mapping[Partition, int | None], *, at_least: bool) -> str:
    lines = text.split("\n")
    number = HEADER_LINES + source if path.startswith("offsets/") else 1
    offsets = offsets_in(lines[number]) if number < len(lines) else None
    if offsets is None:
        raise Refused(f"{path} has no offsets of Kafka where they should be")
    for partition, offset in to.items():
        if offset is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = max(offset, offsets.get(partition, 0)) if at_least else offset
    lines[number] = _encoded(offsets)
    return "\n".join(lines)


def _encoded(offsets: Mapping[Partition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.number)] = offsets[partition]
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)
