"""Judging: what a checkpoint says, what was remembered, and what brokers say now become findings. Pure.

The argument. A partition's log has one writer at a time, the leader, and each leader's reign has a number, the epoch. Two
logs that have a record of the same epoch are the same up to it. A new leader that was in sync has every record that anybody
could read. So if what the leaders up to the remembered epoch have written ends, in today's log, before a record that could be
read then, a leader took over that did not have it: the log was truncated there, whatever has been written since. Within one
epoch of one life of a topic (its id) nothing is truncated at all, so then nobody has to be asked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from holdfast.kafka.check.broker_snapshot import Sighted, SightedPartition, SightedTopic
from holdfast.kafka.check.checkpoint_offsets import Position, Saved
from holdfast.kafka.check.impact import Log, counted, records
from holdfast.kafka.check.last_known import Memory, RememberedPartition, RememberedTopic
from holdfast.kafka.check.offset_finding import Finding, Kind, Weight


def judge(saved: Saved, remembered: Memory, sighted: Sighted) -> tuple[Finding, ...]:
    """In the order of topics and partitions. Empty if every offset is where it should be."""
    found: list[Finding] = []
    for topic, partitions in groupby(sorted(saved), key=lambda partition: partition.topic):
        own = {partition.number: saved[partition] for partition in partitions}
        found += _topic(topic, own, remembered.topic(topic), sighted.topics.get(topic), sighted.problem)
    return tuple(found)


def verdict(findings: Iterable[Finding]) -> Weight | None:
    """The gravest of them."""
    return max((finding.weight for finding in findings), default=None)


def _topic(
    topic: str,
    saved: dict[int, Position],
    remembered: RememberedTopic | None,
    seen: SightedTopic | None,
    problem: str,
) -> Iterator[Finding]:
    if seen is None or seen.problem:
        why = problem or (seen.problem if seen is not None else "it was not asked about")
        yield Finding(Kind.BROKER_AWAY, Weight.WAIT, topic, f"no broker tells of it: {why}")
    elif not seen.exists:
        yield _deleted(topic, saved, remembered)
    elif remembered is not None and remembered.id is not None and seen.id is not None and remembered.id != seen.id:
        yield from (_recreated(topic, number, saved[number], remembered, seen) for number in sorted(saved))
    else:
        yield from _first_sight(topic, saved, remembered)
        yield from _partitions(topic, saved, remembered, seen)
        yield from _added(topic, saved, remembered.count if remembered is not None else 0, seen)


def _partitions(
    topic: str, saved: dict[int, Position], remembered: RememberedTopic | None, seen: SightedTopic
) -> Iterator[Finding]:
    known = {each.number: each for each in remembered.partitions} if remembered is not None else {}
    for number, position in sorted(saved.items()):
        if number not in seen.partitions:
            yield _gone(topic, number, position, known.get(number))
            continue
        yield from _partition(topic, number, position, known.get(number), seen.partitions[number])


# The topic as a whole


def _deleted(topic: str, saved: dict[int, Position], remembered: RememberedTopic | None) -> Finding:
    """May pass, because a broker that has just been started may not know of a topic yet. What was deleted does not come back:
    one of the same name has another id.
    """
    lost = [
        max(0, each.latest - saved[each.number].next)
        for each in (remembered.partitions if remembered is not None else ())
        if each.number in saved
    ]
    total = sum(lost) if len(lost) == len(saved) else None
    words = "it is not there any more; " + (
        f"at least {records(total)} of it had not been read" if total else "how much of it had not been read is not known"
    )
    return Finding(Kind.DELETED, Weight.WAIT, topic, words, lost=total, lost_more=True)


def _recreated(topic: str, number: int, position: Position, remembered: RememberedTopic, seen: SightedTopic) -> Finding:
    before, now = remembered.partition(number), seen.partitions.get(number)
    lost = max(0, before.latest - position.next) if before is not None else None
    words = "it was deleted and created again under its name, so the saved offset is that of other records"
    words += f"; at least {records(lost)} of the old one had not been read" if lost else ""
    if now is None or now.earliest is None or now.latest is None:
        words += "; the new one has no such partition" if now is None else "; how long the new one is was not answered"
        return Finding(Kind.RECREATED, Weight.STOP, topic, words, number, position.next, lost=lost, lost_more=True)
    log = Log(earliest=now.earliest, latest=now.latest, unread=now.earliest)
    words += f"; the new one has {records(now.latest - now.earliest)}, and none of them was read"
    finding = Finding(Kind.RECREATED, Weight.STOP, topic, words, number, lost=lost, lost_more=True)
    return counted(finding, position, log)


def _first_sight(topic: str, saved: dict[int, Position], remembered: RememberedTopic | None) -> Iterator[Finding]:
    known = {each.number for each in remembered.partitions if each.epoch is not None} if remembered is not None else set()
    unknown = [number for number, position in saved.items() if number not in known and position.until > 0]
    if unknown:
        which = "all its partitions" if len(unknown) == len(saved) else f"{len(unknown)} of its {len(saved)} partitions"
        yield Finding(
            Kind.FIRST_SIGHT,
            Weight.NOTE,
            topic,
            f"nothing is remembered of {which}: whether the topic was re-created, or truncated and has regrown past the saved "
            f"offset, before this first look cannot be known",
        )


def _gone(topic: str, number: int, position: Position, before: RememberedPartition | None) -> Finding:
    """May pass: partitions are never taken away from a topic, so either a broker does not know all of it yet, or nothing was
    remembered and it is another topic.
    """
    lost = max(0, before.latest - position.next) if before is not None else None
    words = "the topic has no such partition any more"
    words += f"; at least {records(lost)} in it had not been read" if lost else ""
    return Finding(Kind.GONE, Weight.WAIT, topic, words, number, position.next, lost=lost, lost_more=True)


def _added(topic: str, saved: dict[int, Position], count: int, seen: SightedTopic) -> Iterator[Finding]:
    """Those that the job does not know yet; and those that were not there at the last look, though it has found them since."""
    for number, partition in sorted(seen.partitions.items()):
        if number in saved and (number < count or not count):
            continue
        if partition.earliest and number not in saved:
            words = f"a new partition that has lost its first {records(partition.earliest)} before the job read them"
            finding = Finding(Kind.ADDED, Weight.STOP, topic, words, number, lost=partition.earliest)
            log = Log(partition.earliest, partition.latest or partition.earliest, partition.earliest)
            yield counted(finding, Position(0, 0), log)
        else:
            words = "a new partition; the job reads it from its first record on"
            yield Finding(
                Kind.ADDED, Weight.NOTE, topic, words, number, earliest=partition.earliest, latest=partition.latest, lost=0
            )


# One partition of the topic that it always was


def _partition(
    topic: str, number: int, position: Position, before: RememberedPartition | None, now: SightedPartition
) -> Iterator[Finding]:
    if now.earliest is None or now.latest is None:
        yield _silent(topic, number, position, now)
        return
    changed = _changed(topic, number, position, before, now, earliest=now.earliest, latest=now.latest)
    if changed is not None and changed.weight > Weight.NOTE:
        yield changed
        return
    out_of_range = list(_range(topic, number, position, now.earliest, now.latest))
    if changed is not None and not (out_of_range and changed.kind is Kind.MOVED):
        yield changed
    yield from out_of_range


def _changed(
    topic: str,
    number: int,
    position: Position,
    before: RememberedPartition | None,
    now: SightedPartition,
    *,
    earliest: int,
    latest: int,
) -> Finding | None:
    """What a change of the leader has done to the log."""
    if before is None or before.epoch is None or now.epoch is None or now.epoch == before.epoch:
        return None
    if now.epoch < before.epoch:
        words = f"broker {now.leader} answers as leader of epoch {now.epoch}, and epoch {before.epoch} has been seen"
        return Finding(Kind.STALE_LEADER, Weight.WAIT, topic, words, number, position.next, earliest, latest)
    if now.history is None or now.history.epoch != before.epoch:
        words = (
            f"its leader has changed, and has not said whether its log is the one that was read: {now.problem or 'no answer'}"
        )
        return Finding(Kind.UNANSWERED, Weight.WAIT, topic, words, number, position.next, earliest, latest)
    truncated = _truncated(topic, number, position, before, now.history.end, earliest, latest)
    return truncated or _moved(topic, number, position, before.epoch, now, earliest, latest)


def _moved(
    topic: str, number: int, position: Position, epoch: int, now: SightedPartition, earliest: int, latest: int
) -> Finding:
    words = f"broker {now.leader} leads it now (epoch {epoch} before, {now.epoch} now), and its log is the one that was read"
    return Finding(Kind.MOVED, Weight.NOTE, topic, words, number, position.next, earliest, latest)


def _silent(topic: str, number: int, position: Position, now: SightedPartition) -> Finding:
    if now.leader is None:
        return Finding(Kind.LEADER_AWAY, Weight.WAIT, topic, "it has no leader at the moment", number, position.next)
    words = f"its leader, broker {now.leader}, does not answer: {now.problem or 'no reason given'}"
    return Finding(Kind.BROKER_AWAY, Weight.WAIT, topic, words, number, position.next)


def _truncated(
    topic: str, number: int, position: Position, before: RememberedPartition, end: int, earliest: int, latest: int
) -> Finding | None:
    """`end` is where today's log stops being the one that was seen before."""
    if end >= before.latest:
        return None
    if position.until <= end:
        gone = before.latest - end
        words = f"the log was truncated at {end}, and has lost {records(gone)} that had not been read yet"
        finding = Finding(Kind.TRUNCATED_AHEAD, Weight.NOTE, topic, words, number, lost=gone, lost_more=True)
        return counted(finding, position, Log(earliest, latest, position.next))
    lost = max(0, before.latest - position.until)
    words = f"the log was truncated at {end} by a leader that did not have the rest"
    finding = Finding(Kind.TRUNCATED, Weight.STOP, topic, words, number, lost=lost, lost_more=True)
    if latest < position.until:
        return _not_regrown(finding, position, Log(earliest, latest, min(position.next, end)), end)
    return _regrown(finding, position, Log(earliest, latest, min(position.next, end)), end, before.until)


def _not_regrown(finding: Finding, position: Position, log: Log, end: int) -> Finding:
    """The new log was never as long as the saved offset, so all that the job has read beyond `end` was of the old one; unless
    it was truncated twice since the last look, and the job has read in between.
    """
    gone = position.until - end
    words = f"{finding.sentence}: it no longer has {records(gone)} that the job has {_read(position)}"
    words += f", and has got {records(log.latest - end)} instead since" if log.latest > end else ""
    return counted(replace(finding, sentence=words, vanished=gone), position, log)


def _regrown(finding: Finding, position: Position, log: Log, end: int, looked: int) -> Finding:
    """How far the job was at the last look decides what can be known: what it read after that may be of either log."""
    finding = replace(finding, kind=Kind.REGROWN)
    below = position.until - end
    if position.until <= looked:
        words = (
            f"{finding.sentence}, and has regrown: it no longer has {records(below)} that the job has {_read(position)}, "
            f"and instead of them as many that were not read"
        )
        return counted(replace(finding, sentence=words, vanished=below), position, log)
    certain = max(0, looked - end)
    words = (
        f"{finding.sentence}, and has regrown; the job was at {looked} at the last look, so of the {records(below)} from there "
        f"to the saved offset between {certain:,} and {below:,} are other ones than the job has read"
    )
    finding = replace(finding, sentence=words, vanished=certain, vanished_more=True)
    return replace(finding, saved=position.next, earliest=log.earliest, latest=log.latest)


def _read(position: Position) -> str:
    return "read" if position.next == position.until else "read or begun to read"


def _range(topic: str, number: int, position: Position, earliest: int, latest: int) -> Iterator[Finding]:
    if earliest > position.next:
        lost = earliest - position.next
        words = f"the log begins at {earliest}: {records(lost)} deleted before the job read them"
        finding = Finding(Kind.RETENTION, Weight.STOP, topic, words, number, lost=lost)
        yield counted(finding, position, Log(earliest, latest, position.next))
    elif position.until > latest:
        beyond = position.until - latest
        words = f"the saved offset is {records(beyond)} beyond the end of the log"
        finding = Finding(Kind.BEYOND_END, Weight.WAIT, topic, words, number, vanished=beyond, vanished_more=True)
        yield replace(finding, saved=position.next, earliest=earliest, latest=latest)
