"""What people read."""

from holdfast.kafka import Kind, Memory, Partition, Position, Sighted, Weight, judge, remember, table
from holdfast.kafka.check.broker_snapshot import History, SightedPartition, SightedTopic
from holdfast.kafka.check.last_known import Kept, RememberedPartition, RememberedTopic, kept_in

SAVED = {Partition("orders", 0): Position(100, 100), Partition("orders", 1): Position(50, 50)}
MEMORY = Memory((RememberedTopic("orders", "a", (RememberedPartition(0, 100, 110, 3), RememberedPartition(1, 50, 50, 3))),))


def sighted(*partitions: SightedPartition) -> Sighted:
    return Sighted({"orders": SightedTopic("a", dict(enumerate(partitions)))})


def test_the_table_has_a_row_for_each_finding_with_what_each_choice_does() -> None:
    findings = judge(
        SAVED,
        MEMORY,
        sighted(SightedPartition(0, 130, 2, 4, History(3, 60)), SightedPartition(58, 70, 1, 3)),
    )
    lines = table(findings).splitlines()
    assert " ".join(lines[0].split()) == (
        "topic partition saved earliest latest what happened lost vanished if kept from earliest from latest from"
    )
    assert " ".join(lines[1].split()) == ("orders 0 100 0 130 truncated and regrown 10+ 40 skips 40 repeats 60 skips 70 60")
    assert " ".join(lines[2].split()) == "orders 1 50 58 70 retention overtook 8 - out of range nothing skips 12 58"
    assert len(lines) == 4


def test_the_sentence_says_where_and_how_much() -> None:
    (regrown,) = judge(SAVED, MEMORY, sighted(SightedPartition(0, 130, 2, 4, History(3, 60)), SightedPartition(0, 50, 1, 3)))
    assert str(regrown) == (
        "orders-0: the log was truncated at 60 by a leader that did not have the rest, and has regrown: it no longer has "
        "40 records that the job has read, and instead of them as many that were not read"
    )


def test_a_job_that_has_read_on_since_the_last_look_is_told_only_what_is_certain() -> None:
    saved = SAVED | {Partition("orders", 0): Position(120, 120)}
    (regrown,) = judge(saved, MEMORY, sighted(SightedPartition(0, 130, 2, 4, History(3, 60)), SightedPartition(0, 50, 1, 3)))
    assert (regrown.vanished, regrown.vanished_more, regrown.mends, regrown.keep) == (40, True, None, None)
    assert "between 40 and 60 are other ones" in regrown.sentence


def test_two_sources_of_one_topic_are_remembered_apart() -> None:
    kept = Kept().with_another("file:/q", 0, MEMORY).with_another("file:/q", 1, Memory()).with_another("file:/r", 0, Memory())
    assert kept_in(kept.encoded()) == (kept, "")
    assert (kept.memory("file:/q", 0), kept.memory("file:/q", 1), kept.memory("file:/s", 0)) == (MEMORY, Memory(), Memory())
    assert len(kept.with_another("file:/q", 0, Memory()).sources) == 3


def test_what_cannot_be_read_counts_as_nothing_and_is_said() -> None:
    kept, sentence = kept_in(b"{torn")
    assert kept == Kept() and "kafka.json holds 5 bytes that are not a record" in sentence


def test_what_a_person_has_chosen_for_is_forgotten() -> None:
    left = MEMORY.without({Partition("orders", 0)})
    assert left.epochs() == {Partition("orders", 1): 3}
    assert left.without({Partition("orders", 1)}) == Memory()


def test_of_what_is_wrong_nothing_is_forgotten() -> None:
    seen = sighted(SightedPartition(0, 130, 2, 4, History(3, 60)), SightedPartition(0, 60, 1, 5, History(3, 60)))
    after = remember(MEMORY, SAVED, seen, judge(SAVED, MEMORY, seen))
    assert after.topics[0].partitions == (RememberedPartition(0, 100, 110, 3), RememberedPartition(1, 50, 60, 5))


def in_order(partition: int) -> SightedPartition:
    return SightedPartition(0, (110, 50)[partition], 1, 3)


def test_a_leader_of_an_earlier_epoch_is_not_believed() -> None:
    (finding,) = judge(SAVED, MEMORY, sighted(SightedPartition(0, 90, 1, 2), in_order(1)))
    assert (finding.kind, finding.weight) == (Kind.STALE_LEADER, Weight.WAIT)


def test_a_leader_that_has_not_told_its_history_is_asked_again() -> None:
    for history in (None, History(2, 110)):
        (finding,) = judge(SAVED, MEMORY, sighted(SightedPartition(0, 120, 1, 4, history), in_order(1)))
        assert (finding.kind, finding.weight) == (Kind.UNANSWERED, Weight.WAIT)


def test_an_offset_beyond_the_end_may_pass_whoever_leads() -> None:
    for epoch, history in ((3, None), (4, History(3, 110))):
        (finding,) = judge(SAVED, MEMORY, sighted(SightedPartition(0, 99, 1, epoch, history), in_order(1)))
        assert (finding.kind, finding.weight, finding.vanished, finding.keep) == (Kind.BEYOND_END, Weight.WAIT, 1, None)
    assert judge(SAVED, MEMORY, sighted(SightedPartition(0, 100, 1, 3), in_order(1))) == ()


def test_a_batch_that_was_begun_must_be_there_as_a_whole() -> None:
    saved = SAVED | {Partition("orders", 0): Position(80, 100)}
    regrown, longer = SightedPartition(0, 130, 2, 4, History(3, 90)), SightedPartition(0, 130, 2, 4, History(3, 100))
    (finding,) = judge(saved, MEMORY, sighted(regrown, in_order(1)))
    assert (finding.kind, finding.weight, finding.vanished) == (Kind.REGROWN, Weight.STOP, 10)
    assert "10 records that the job has read or begun to read" in finding.sentence
    (finding,) = judge(saved, MEMORY, sighted(longer, in_order(1)))
    assert (finding.kind, finding.weight) == (Kind.TRUNCATED_AHEAD, Weight.NOTE)


def test_a_partition_that_the_job_found_before_the_guard_did_is_told_of_once() -> None:
    one, two = SightedPartition(0, 110, 1, 3), SightedPartition(0, 50, 1, 3)
    first = {Partition("orders", 0): SAVED[Partition("orders", 0)]}
    known = remember(Memory(), first, sighted(one), ())
    assert known.topics[0].count == 1
    (added,) = judge(SAVED, known, sighted(one, two))[-1:]
    assert (added.kind, added.weight, added.partition) == (Kind.ADDED, Weight.NOTE, 1)
    later = remember(known, SAVED, sighted(one, two), (added,))
    assert Kind.ADDED not in [finding.kind for finding in judge(SAVED, later, sighted(one, two))]
    forgotten = later.without({Partition("orders", 1)})  # as after a choice: it is not new for that
    assert Kind.ADDED not in [finding.kind for finding in judge(SAVED, forgotten, sighted(one, two))]
