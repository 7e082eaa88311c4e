"""Operator choices: which partitions they cover, and how they are recorded."""

import pytest

from holdfast.errors import Refused
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, PartitionSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition
from holdfast.kafka.check.consumer_lag import compute_lag
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, ResumeImpact, Severity
from holdfast.kafka.check.operator_choice import (
    OffsetChoice,
    ParkFindings,
    SourceFindings,
    choose_for_source,
    decode_choice,
    decode_park_findings,
    encode_record,
    split_by_source,
)

RETENTION = OffsetFinding(
    FindingKind.RETENTION, Severity.STOP, "t", "sentence", 0, 50, 73, 90, lost=23, mends=73, keep=ResumeImpact(0, 0)
)
NEW_LEADER = OffsetFinding(FindingKind.NEW_LEADER, Severity.NOTE, "t", "sentence", 1, 30, 0, 40)
SOURCE = SourceFindings("/c", 0, (RETENTION, NEW_LEADER))
SAVED = {Partition("t", 0): PartitionPosition(50, 50), Partition("t", 1): PartitionPosition(30, 30)}


def test_choice_covers_exactly_the_affected_partitions() -> None:
    chosen = choose_for_source(SOURCE, SAVED, "earliest")
    assert [(each.partition, each.saved, each.to, each.moved) for each in chosen.partitions] == [(0, 50, 73, True)]
    assert [(move.partition, move.offset) for move in chosen.moves()] == [(Partition("t", 0), 73)]


def test_keep_moves_nothing_but_names_the_affected_partitions() -> None:
    chosen = choose_for_source(SOURCE, SAVED, "keep")
    assert chosen.moves() == ()
    assert [each.topic_partition for each in chosen.partitions] == [Partition("t", 0)]


def test_choice_is_outdated_if_the_saved_offset_has_changed() -> None:
    chosen = choose_for_source(SOURCE, SAVED, "latest")
    assert chosen.first_outdated_partition(SAVED) is None
    assert chosen.first_outdated_partition({**SAVED, Partition("t", 0): PartitionPosition(60, 60)}) == Partition("t", 0)
    assert chosen.first_outdated_partition({}) == Partition("t", 0)


def test_records_survive_encoding() -> None:
    parked = ParkFindings(1.5, (SOURCE,))
    assert decode_park_findings(encode_record(parked)) == parked
    choice = OffsetChoice("ann@host", "earliest", 2.0, "s1", (choose_for_source(SOURCE, SAVED, "earliest"),))
    assert decode_choice(encode_record(choice)) == choice
    assert decode_park_findings(b"noise") is None and decode_park_findings(None) is None and decode_choice(None) is None
    with pytest.raises(Refused):
        decode_choice(b"noise")


def test_records_of_an_earlier_version_are_read_and_keep_their_fields() -> None:
    parked = (
        b'{"schema":1,"wall":1.5,"sources":[{"location":"/c","number":0,"findings":[{"kind":"retention overtook","weight":3,'
        b'"topic":"t","sentence":"sentence","partition":0,"saved":50,"earliest":73,"latest":90,"lost":23,"lost_more":false,'
        b'"vanished":null,"vanished_more":false,"mends":73,"keep":{"skipped":0,"repeated":0},"from_earliest":null,'
        b'"from_latest":null}],"folder":0}]}'
    )
    findings = decode_park_findings(parked)
    assert findings == ParkFindings(1.5, (SourceFindings("/c", 0, (RETENTION,)),))
    assert encode_record(findings) == parked.replace(b'"folder":0', b'"folder":0,"name":""')
    chosen = (
        b'{"schema":1,"by":"ann@host","word":"earliest","wall":2.0,"savepoint":"s1","sources":[{"location":"/c","number":0,'
        b'"partitions":[{"topic":"t","partition":0,"saved":50,"to":73,"moved":true}],"folder":0}]}'
    )
    choice = decode_choice(chosen)
    assert choice is not None and choice.sources == (choose_for_source(SOURCE, SAVED, "earliest"),)
    assert encode_record(choice) == chosen.replace(b'"folder":0', b'"folder":0,"name":""')


def test_description_names_operator_offsets_and_savepoint() -> None:
    choice = OffsetChoice("ann@host", "earliest", 2.0, "s1", (choose_for_source(SOURCE, SAVED, "earliest"),))
    assert choice.describe() == "ann@host chose 'earliest' for t-0 (50 → 73); savepoint before the change: s1"
    assert choice.without_location("/c").sources == ()
    assert choice.for_location("/elsewhere") == ()


def test_chosen_offsets_are_split_by_source_and_must_be_in_the_findings() -> None:
    other = SourceFindings("/d", 0, (OffsetFinding(FindingKind.RETENTION, Severity.STOP, "u", "sentence", 0, 1, 2, 3),))
    parked = ParkFindings(0.0, (SOURCE, other))
    offsets = {Partition("t", 0): 80, Partition("u", 0): 2}
    assert split_by_source(parked, offsets) == [{Partition("t", 0): 80}, {Partition("u", 0): 2}]
    with pytest.raises(Refused, match="cannot move t-7: only partitions in the findings table"):
        split_by_source(parked, {Partition("t", 7): 1})
    twice = split_by_source(ParkFindings(0.0, (SOURCE, SOURCE)), {Partition("t", 0): 80})
    assert twice == [{Partition("t", 0): 80}] * 2, "a source that is used twice has two lines, and both move"


def test_lag_is_the_distance_from_the_next_offset_to_the_end_of_the_log() -> None:
    partitions = {0: PartitionSnapshot(0, 90), 1: PartitionSnapshot(0, 30), 2: PartitionSnapshot(0, 5)}
    snapshot = BrokerSnapshot({"t": TopicSnapshot("id", partitions)})
    assert compute_lag({**SAVED, Partition("gone", 0): PartitionPosition(1, 1)}, snapshot) == {"t": {"0": 40, "1": 0}}
