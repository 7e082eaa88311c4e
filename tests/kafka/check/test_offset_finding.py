"""Sentences, tables and records of findings."""

from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, EpochEndOffset, PartitionSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition
from holdfast.kafka.check.findings_table import COLUMNS, detail_lines, table_row
from holdfast.kafka.check.last_known import (
    JobLastKnown,
    LastKnown,
    LastKnownPartition,
    LastKnownTopic,
    decode_last_known,
    update_last_known,
)
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import FindingKind, Severity

SAVED = {Partition("orders", 0): PartitionPosition(100, 100), Partition("orders", 1): PartitionPosition(50, 50)}
LAST_KNOWN = LastKnown((LastKnownTopic("orders", "a", (LastKnownPartition(0, 100, 110, 3), LastKnownPartition(1, 50, 50, 3))),))


def snapshot(*partitions: PartitionSnapshot) -> BrokerSnapshot:
    return BrokerSnapshot({"orders": TopicSnapshot("a", dict(enumerate(partitions)))})


def test_table_row_shows_the_impact_of_each_choice() -> None:
    findings = check_offsets(
        SAVED,
        LAST_KNOWN,
        snapshot(PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 60)), PartitionSnapshot(58, 70, 1, 3)),
    )
    regrown, retention = map(table_row, findings)
    assert " ".join(regrown) == "orders 0 100 0 130 truncated and regrown 10+ 40 skips 40 repeats 60 skips 70 60"
    assert " ".join(retention) == "orders 1 50 58 70 deleted by retention 8 - out of range nothing skips 12 58"
    assert len(regrown) == len(retention) == len(COLUMNS)
    assert detail_lines(findings[1]) == (
        "orders-1: deleted by retention",
        "saved 50, log from 58 to 70; lost 8, vanished -",
        "keep: out of range; earliest: nothing; latest: skips 12; safe offset: 58",
    )


def test_sentence_names_partition_offset_and_record_count() -> None:
    (regrown,) = check_offsets(
        SAVED, LAST_KNOWN, snapshot(PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 60)), PartitionSnapshot(0, 50, 1, 3))
    )
    assert str(regrown) == (
        "orders-0: the log was truncated at offset 60 by a leader that lacked the later records and has grown past the saved "
        "offset: it no longer has 40 records that the job has read, and has as many unread ones in their place"
    )


def test_vanished_count_is_a_lower_bound_if_the_job_read_after_the_last_check() -> None:
    saved = SAVED | {Partition("orders", 0): PartitionPosition(120, 120)}
    (regrown,) = check_offsets(
        saved, LAST_KNOWN, snapshot(PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 60)), PartitionSnapshot(0, 50, 1, 3))
    )
    assert (regrown.vanished, regrown.vanished_more, regrown.mends, regrown.keep) == (40, True, None, None)
    assert "between 40 and 60 of the 60 records from offset 60 to the saved offset" in regrown.sentence


def test_two_sources_of_one_topic_have_separate_records() -> None:
    record = (
        JobLastKnown()
        .with_source("file:/q", 0, LAST_KNOWN)
        .with_source("file:/q", 1, LastKnown())
        .with_source("file:/r", 0, LastKnown())
    )
    assert decode_last_known(record.encode()) == record
    assert (record.last_known_of("file:/q", 0), record.last_known_of("file:/q", 1), record.last_known_of("file:/s", 0)) == (
        LAST_KNOWN,
        LastKnown(),
        LastKnown(),
    )
    assert len(record.with_source("file:/q", 0, LastKnown()).sources) == 3


def test_missing_or_unreadable_record_counts_as_empty() -> None:
    for data in (None, b"{torn", b'{"schema":99}'):
        assert decode_last_known(data) == JobLastKnown()


def test_record_of_an_earlier_version_is_read() -> None:
    data = (
        b'{"schema":1,"sources":[{"location":"file:/q","number":0,"memory":{"topics":[{"name":"orders","id":"a",'
        b'"partitions":[{"number":0,"until":100,"latest":110,"epoch":3},{"number":1,"until":50,"latest":50,"epoch":3}],'
        b'"count":0}]}}]}'
    )
    assert decode_last_known(data) == JobLastKnown().with_source("file:/q", 0, LAST_KNOWN)


def test_last_known_state_of_chosen_partitions_is_dropped() -> None:
    remaining = LAST_KNOWN.without_partitions({Partition("orders", 0)})
    assert remaining.leader_epochs() == {Partition("orders", 1): 3}
    assert remaining.without_partitions({Partition("orders", 1)}) == LastKnown()


def test_last_known_state_of_affected_partitions_is_kept() -> None:
    now = snapshot(
        PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 60)), PartitionSnapshot(0, 60, 1, 5, EpochEndOffset(3, 60))
    )
    after = update_last_known(LAST_KNOWN, SAVED, now, check_offsets(SAVED, LAST_KNOWN, now))
    assert after.topics[0].partitions == (LastKnownPartition(0, 100, 110, 3), LastKnownPartition(1, 50, 60, 5))


def healthy(partition: int) -> PartitionSnapshot:
    return PartitionSnapshot(0, (110, 50)[partition], 1, 3)


def test_leader_of_an_earlier_epoch_is_stale() -> None:
    (finding,) = check_offsets(SAVED, LAST_KNOWN, snapshot(PartitionSnapshot(0, 90, 1, 2), healthy(1)))
    assert (finding.kind, finding.weight) == (FindingKind.STALE_LEADER, Severity.WAIT)


def test_new_leader_without_the_end_of_the_epoch_is_asked_again() -> None:
    for epoch_end in (None, EpochEndOffset(2, 110)):
        (finding,) = check_offsets(SAVED, LAST_KNOWN, snapshot(PartitionSnapshot(0, 120, 1, 4, epoch_end), healthy(1)))
        assert (finding.kind, finding.weight) == (FindingKind.HISTORY_UNKNOWN, Severity.WAIT)


def test_offset_beyond_the_end_waits_under_any_leader() -> None:
    for epoch, epoch_end in ((3, None), (4, EpochEndOffset(3, 110))):
        (finding,) = check_offsets(SAVED, LAST_KNOWN, snapshot(PartitionSnapshot(0, 99, 1, epoch, epoch_end), healthy(1)))
        assert (finding.kind, finding.weight, finding.vanished, finding.keep) == (
            FindingKind.BEYOND_END,
            Severity.WAIT,
            1,
            None,
        )
    assert check_offsets(SAVED, LAST_KNOWN, snapshot(PartitionSnapshot(0, 100, 1, 3), healthy(1))) == ()


def test_all_records_of_a_planned_batch_must_exist() -> None:
    saved = SAVED | {Partition("orders", 0): PartitionPosition(80, 100)}
    regrown, longer = (
        PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 90)),
        PartitionSnapshot(0, 130, 2, 4, EpochEndOffset(3, 100)),
    )
    (finding,) = check_offsets(saved, LAST_KNOWN, snapshot(regrown, healthy(1)))
    assert (finding.kind, finding.weight, finding.vanished) == (FindingKind.REGROWN, Severity.STOP, 10)
    assert "10 records that the job has read or started to read" in finding.sentence
    (finding,) = check_offsets(saved, LAST_KNOWN, snapshot(longer, healthy(1)))
    assert (finding.kind, finding.weight) == (FindingKind.TRUNCATED_AHEAD, Severity.NOTE)


def test_partition_that_the_job_found_first_is_reported_once() -> None:
    one, two = PartitionSnapshot(0, 110, 1, 3), PartitionSnapshot(0, 50, 1, 3)
    first = {Partition("orders", 0): SAVED[Partition("orders", 0)]}
    known = update_last_known(LastKnown(), first, snapshot(one), ())
    assert known.topics[0].count == 1
    (added,) = check_offsets(SAVED, known, snapshot(one, two))[-1:]
    assert (added.kind, added.weight, added.partition) == (FindingKind.PARTITION_ADDED, Severity.NOTE, 1)
    later = update_last_known(known, SAVED, snapshot(one, two), (added,))
    assert FindingKind.PARTITION_ADDED not in [finding.kind for finding in check_offsets(SAVED, later, snapshot(one, two))]
    # As after an operator's choice: it does not make the partition new.
    reset = later.without_partitions({Partition("orders", 1)})
    assert FindingKind.PARTITION_ADDED not in [finding.kind for finding in check_offsets(SAVED, reset, snapshot(one, two))]
