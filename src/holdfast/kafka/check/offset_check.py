"""Offset check: compares saved offsets, the last known state and the brokers' current state. Pure.

Why it detects truncation: a partition has one writer at a time, its leader, and each leader has an epoch. Two logs that share
a record of an epoch are identical up to that record. A new leader that was in sync has every record that consumers could
read. So if the records of the last known epoch end, in today's log, before a record that was readable then, a leader without
that record took over and the log was truncated there, whatever was written since. Within one epoch of one topic id a log is
never truncated, so no request is needed.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, PartitionSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import PartitionPosition, SavedOffsets
from holdfast.kafka.check.impact import LogRange, format_record_count, with_impacts
from holdfast.kafka.check.last_known import LastKnown, LastKnownPartition, LastKnownTopic
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity


def check_offsets(saved: SavedOffsets, last_known: LastKnown, snapshot: BrokerSnapshot) -> tuple[OffsetFinding, ...]:
    """Return the findings, ordered by topic and partition. Empty if every saved offset is still valid."""
    findings: list[OffsetFinding] = []
    for topic, partitions in groupby(sorted(saved), key=lambda partition: partition.topic):
        positions = {partition.number: saved[partition] for partition in partitions}
        findings += _check_topic(topic, positions, last_known.topic(topic), snapshot.topics.get(topic), snapshot.problem)
    return tuple(findings)


def _check_topic(
    topic: str,
    saved: dict[int, PartitionPosition],
    before: LastKnownTopic | None,
    now: TopicSnapshot | None,
    problem: str,
) -> Iterator[OffsetFinding]:
    if now is None or now.problem:
        reason = problem or (now.problem if now is not None else "the topic was not requested")
        sentence = f"no broker describes this topic: {reason}"
        yield OffsetFinding(FindingKind.BROKER_UNREACHABLE, Severity.WAIT, topic, sentence)
    elif not now.exists:
        yield _missing_topic_finding(topic, saved, before)
    elif before is not None and before.id is not None and now.id is not None and before.id != now.id:
        yield from (_recreated_topic_finding(topic, number, saved[number], before, now) for number in sorted(saved))
    else:
        yield from _first_check_findings(topic, saved, before)
        yield from _check_partitions(topic, saved, before, now)
        yield from _added_partition_findings(topic, saved, before.count if before is not None else 0, now)


def _check_partitions(
    topic: str, saved: dict[int, PartitionPosition], before: LastKnownTopic | None, now: TopicSnapshot
) -> Iterator[OffsetFinding]:
    known = {each.number: each for each in before.partitions} if before is not None else {}
    for number, position in sorted(saved.items()):
        if number not in now.partitions:
            yield _missing_partition_finding(topic, number, position, known.get(number))
            continue
        yield from _check_partition(topic, number, position, known.get(number), now.partitions[number])


# Findings about a whole topic


def _missing_topic_finding(topic: str, saved: dict[int, PartitionPosition], before: LastKnownTopic | None) -> OffsetFinding:
    """Report a missing topic. It may pass: a broker that has just started may not know all topics yet.

    A deleted topic never comes back: a topic with the same name has another id.
    """
    lost = [
        max(0, each.latest - saved[each.number].next_offset)
        for each in (before.partitions if before is not None else ())
        if each.number in saved
    ]
    total = sum(lost) if len(lost) == len(saved) else None
    sentence = "the topic no longer exists; " + (
        f"at least {format_record_count(total)} lost before the job read them"
        if total
        else "the number of unread records is unknown"
    )
    return OffsetFinding(FindingKind.TOPIC_DELETED, Severity.WAIT, topic, sentence, lost=total, lost_more=True)


def _recreated_topic_finding(
    topic: str, number: int, position: PartitionPosition, before: LastKnownTopic, now: TopicSnapshot
) -> OffsetFinding:
    old, new = before.partition(number), now.partitions.get(number)
    lost = max(0, old.latest - position.next_offset) if old is not None else None
    sentence = "the topic was deleted and re-created, so the saved offset refers to other records"
    sentence += f"; at least {format_record_count(lost)} of the old topic lost before the job read them" if lost else ""
    finding = OffsetFinding(FindingKind.TOPIC_RECREATED, Severity.STOP, topic, sentence, number, lost=lost, lost_more=True)
    if new is None or new.earliest is None or new.latest is None:
        detail = "the new topic does not have this partition" if new is None else "no broker reports the length of the new log"
        return replace(finding, sentence=f"{sentence}; {detail}", saved=position.next_offset)
    detail = f"the new log has {format_record_count(new.latest - new.earliest)}, all unread"
    log = LogRange(earliest=new.earliest, latest=new.latest, first_unread=new.earliest)
    return with_impacts(replace(finding, sentence=f"{sentence}; {detail}"), position, log)


def _first_check_findings(
    topic: str, saved: dict[int, PartitionPosition], before: LastKnownTopic | None
) -> Iterator[OffsetFinding]:
    known = {each.number for each in before.partitions if each.epoch is not None} if before is not None else set()
    unknown = [number for number, position in saved.items() if number not in known and position.planned_end > 0]
    if unknown:
        which = "all its partitions" if len(unknown) == len(saved) else f"{len(unknown)} of its {len(saved)} partitions"
        yield OffsetFinding(
            FindingKind.FIRST_CHECK,
            Severity.NOTE,
            topic,
            f"this is the first check of {which}: it cannot detect whether the topic was re-created, or truncated and refilled "
            f"past the saved offset, before now",
        )


def _missing_partition_finding(
    topic: str, number: int, position: PartitionPosition, before: LastKnownPartition | None
) -> OffsetFinding:
    """Report a partition that the topic does not have.

    Kafka never removes partitions. Either a broker does not know all of them yet, or the topic is another one and there is
    no earlier record of its id.
    """
    lost = max(0, before.latest - position.next_offset) if before is not None else None
    sentence = "the topic no longer has this partition"
    sentence += f"; at least {format_record_count(lost)} lost before the job read them" if lost else ""
    return OffsetFinding(
        FindingKind.PARTITION_MISSING, Severity.WAIT, topic, sentence, number, position.next_offset, lost=lost, lost_more=True
    )


def _added_partition_findings(
    topic: str, saved: dict[int, PartitionPosition], count: int, now: TopicSnapshot
) -> Iterator[OffsetFinding]:
    """Report partitions that the job does not read yet, and those that were added since the last check."""
    for number, partition in sorted(now.partitions.items()):
        if number in saved and (number < count or not count):
            continue
        if partition.earliest and number not in saved:
            lost = format_record_count(partition.earliest)
            sentence = f"new partition: its first {lost} deleted before the job read them"
            finding = OffsetFinding(
                FindingKind.PARTITION_ADDED, Severity.STOP, topic, sentence, number, lost=partition.earliest
            )
            log = LogRange(partition.earliest, partition.latest or partition.earliest, partition.earliest)
            yield with_impacts(finding, PartitionPosition(0, 0), log)
        else:
            sentence = "new partition: the job reads it from its first record"
            yield OffsetFinding(
                FindingKind.PARTITION_ADDED,
                Severity.NOTE,
                topic,
                sentence,
                number,
                earliest=partition.earliest,
                latest=partition.latest,
                lost=0,
            )


# Findings about one partition of an unchanged topic


def _check_partition(
    topic: str, number: int, position: PartitionPosition, before: LastKnownPartition | None, now: PartitionSnapshot
) -> Iterator[OffsetFinding]:
    if now.earliest is None or now.latest is None:
        yield _missing_leader_finding(topic, number, position, now)
        return
    changed = _check_leader_change(topic, number, position, before, now, earliest=now.earliest, latest=now.latest)
    if changed is not None and changed.weight > Severity.NOTE:
        yield changed
        return
    out_of_range = list(_check_range(topic, number, position, now.earliest, now.latest))
    if changed is not None and not (out_of_range and changed.kind is FindingKind.NEW_LEADER):
        yield changed
    yield from out_of_range


def _check_leader_change(
    topic: str,
    number: int,
    position: PartitionPosition,
    before: LastKnownPartition | None,
    now: PartitionSnapshot,
    *,
    earliest: int,
    latest: int,
) -> OffsetFinding | None:
    """Report the effect of a leader change on the log; None if the leader is the same or unknown."""
    if before is None or before.epoch is None or now.epoch is None or now.epoch == before.epoch:
        return None
    finding = OffsetFinding(FindingKind.STALE_LEADER, Severity.WAIT, topic, "", number, position.next_offset, earliest, latest)
    if now.epoch < before.epoch:
        sentence = f"broker {now.leader} answers as leader of epoch {now.epoch}, but epoch {before.epoch} is already known"
        return replace(finding, sentence=sentence)
    if now.epoch_end is None or now.epoch_end.epoch != before.epoch:
        reason = now.problem or "no answer"
        sentence = f"the leader changed and has not confirmed that its log holds the records that were read: {reason}"
        return replace(finding, kind=FindingKind.HISTORY_UNKNOWN, sentence=sentence)
    truncated = _check_truncation(topic, number, position, before, now.epoch_end.end, earliest, latest)
    sentence = f"broker {now.leader} is the new leader (epoch {before.epoch} before, {now.epoch} now) and has the same log"
    return truncated or replace(finding, kind=FindingKind.NEW_LEADER, weight=Severity.NOTE, sentence=sentence)


def _missing_leader_finding(topic: str, number: int, position: PartitionPosition, now: PartitionSnapshot) -> OffsetFinding:
    if now.leader is None:
        sentence = "the partition has no leader at the moment"
        return OffsetFinding(FindingKind.NO_LEADER, Severity.WAIT, topic, sentence, number, position.next_offset)
    sentence = f"the leader, broker {now.leader}, does not answer: {now.problem or 'no reason given'}"
    return OffsetFinding(FindingKind.BROKER_UNREACHABLE, Severity.WAIT, topic, sentence, number, position.next_offset)


def _check_truncation(
    topic: str, number: int, position: PartitionPosition, before: LastKnownPartition, end: int, earliest: int, latest: int
) -> OffsetFinding | None:
    """Report a truncation. Today's log equals the last known one only below offset `end`."""
    if end >= before.latest:
        return None
    if position.planned_end <= end:
        gone = before.latest - end
        sentence = f"the log was truncated at offset {end} and lost {format_record_count(gone)} that the job had not read"
        finding = OffsetFinding(FindingKind.TRUNCATED_AHEAD, Severity.NOTE, topic, sentence, number, lost=gone, lost_more=True)
        return with_impacts(finding, position, LogRange(earliest, latest, position.next_offset))
    lost = max(0, before.latest - position.planned_end)
    sentence = f"the log was truncated at offset {end} by a leader that lacked the later records"
    finding = OffsetFinding(FindingKind.TRUNCATED, Severity.STOP, topic, sentence, number, lost=lost, lost_more=True)
    log = LogRange(earliest, latest, min(position.next_offset, end))
    if latest < position.planned_end:
        return _describe_shorter_log(finding, position, log, end)
    return _describe_regrown_log(finding, position, log, end, before.until)


def _describe_shorter_log(finding: OffsetFinding, position: PartitionPosition, log: LogRange, end: int) -> OffsetFinding:
    """Complete a truncation after which the log is still shorter than the saved offset.

    All records that the job read beyond `end` were in the old log, unless the log was truncated twice since the last check
    and the job read in between.
    """
    gone = position.planned_end - end
    sentence = f"{finding.sentence}: it no longer has {format_record_count(gone)} that the job {_has_read(position)}"
    if log.latest > end:
        sentence += f", and has {format_record_count(log.latest - end)} in their place"
    return with_impacts(replace(finding, sentence=sentence, vanished=gone), position, log)


def _describe_regrown_log(
    finding: OffsetFinding, position: PartitionPosition, log: LogRange, end: int, last_checked: int
) -> OffsetFinding:
    """Complete a truncation after which the log has grown past the saved offset.

    Records that the job read after the last check, beyond offset `last_checked`, may come from either log.
    """
    finding = replace(finding, kind=FindingKind.REGROWN)
    replaced = position.planned_end - end
    if position.planned_end <= last_checked:
        sentence = (
            f"{finding.sentence} and has grown past the saved offset: it no longer has {format_record_count(replaced)} "
            f"that the job {_has_read(position)}, and has as many unread ones in their place"
        )
        return with_impacts(replace(finding, sentence=sentence, vanished=replaced), position, log)
    certain = max(0, last_checked - end)
    sentence = (
        f"{finding.sentence} and has grown past the saved offset; the job was at offset {last_checked} at the last check, so "
        f"between {certain:,} and {replaced:,} of the {format_record_count(replaced)} from offset {end} to the saved offset "
        f"are not the ones that the job read"
    )
    finding = replace(finding, sentence=sentence, vanished=certain, vanished_more=True)
    return replace(finding, saved=position.next_offset, earliest=log.earliest, latest=log.latest)


def _has_read(position: PartitionPosition) -> str:
    return "has read" if position.next_offset == position.planned_end else "has read or started to read"


def _check_range(topic: str, number: int, position: PartitionPosition, earliest: int, latest: int) -> Iterator[OffsetFinding]:
    if earliest > position.next_offset:
        lost = earliest - position.next_offset
        sentence = f"the log starts at offset {earliest}: {format_record_count(lost)} deleted before the job read them"
        finding = OffsetFinding(FindingKind.RETENTION, Severity.STOP, topic, sentence, number, lost=lost)
        yield with_impacts(finding, position, LogRange(earliest, latest, position.next_offset))
    elif position.planned_end > latest:
        beyond = position.planned_end - latest
        sentence = f"the saved offset is {format_record_count(beyond)} beyond the end of the log"
        finding = OffsetFinding(FindingKind.BEYOND_END, Severity.WAIT, topic, sentence, number, vanished=beyond)
        yield replace(finding, vanished_more=True, saved=position.next_offset, earliest=earliest, latest=latest)
