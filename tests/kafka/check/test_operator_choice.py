"""What a person chooses for the partitions of a table, and what the next attempt makes of it."""

import pytest

from holdfast.errors import Refused
from holdfast.kafka import Finding, Kind, Partition, Position, Sighted, Weight
from holdfast.kafka.check.broker_snapshot import SightedPartition, SightedTopic
from holdfast.kafka.check.lag import lag
from holdfast.kafka.check.offset_finding import Consequence
from holdfast.kafka.check.operator_choice import Choice, Loss, Lost, choice_in, choose, divided, encoded, lost_in

RETENTION = Finding(Kind.RETENTION, Weight.STOP, "t", "words", 0, 50, 73, 90, lost=23, mends=73, keep=Consequence(0, 0))
MOVED = Finding(Kind.MOVED, Weight.NOTE, "t", "words", 1, 30, 0, 40)
LOSS = Loss("/c", 0, (RETENTION, MOVED))
SAVED = {Partition("t", 0): Position(50, 50), Partition("t", 1): Position(30, 30)}


def test_exactly_the_partitions_that_something_is_wrong_with_are_chosen_for() -> None:
    chosen = choose(LOSS, SAVED, "earliest")
    assert [(each.partition, each.saved, each.to, each.moved) for each in chosen.partitions] == [(0, 50, 73, True)]
    assert [(move.partition, move.to) for move in chosen.moves()] == [(Partition("t", 0), 73)]


def test_keep_moves_nothing_and_names_what_is_forgotten() -> None:
    chosen = choose(LOSS, SAVED, "keep")
    assert chosen.moves() == ()
    assert [each.name for each in chosen.partitions] == [Partition("t", 0)]


def test_what_was_chosen_for_another_offset_than_is_saved_now_is_outdated() -> None:
    chosen = choose(LOSS, SAVED, "latest")
    assert chosen.outdated(SAVED) is None
    assert chosen.outdated({**SAVED, Partition("t", 0): Position(60, 60)}) == Partition("t", 0)
    assert chosen.outdated({}) == Partition("t", 0)


def test_records_come_back_as_they_were_left() -> None:
    lost = Lost(1.5, (LOSS,))
    assert lost_in(encoded(lost)) == lost
    choice = Choice("ann@host", "earliest", 2.0, "s1", (choose(LOSS, SAVED, "earliest"),))
    assert choice_in(encoded(choice)) == choice
    assert lost_in(b"noise") is None and lost_in(None) is None and choice_in(None) is None
    with pytest.raises(Refused):
        choice_in(b"noise")


def test_an_event_says_who_chose_what_and_where_the_checkpoint_before_is() -> None:
    choice = Choice("ann@host", "earliest", 2.0, "s1", (choose(LOSS, SAVED, "earliest"),))
    assert choice.told() == "ann@host chose 'earliest' for t-0 (50 → 73); the checkpoint before is s1"
    assert choice.without("/c").sources == ()
    assert choice.at("/elsewhere") == ()


def test_a_file_is_divided_among_the_sources_and_may_name_only_what_is_in_a_table() -> None:
    other = Loss("/d", 0, (Finding(Kind.RETENTION, Weight.STOP, "u", "words", 0, 1, 2, 3),))
    lost = Lost(0.0, (LOSS, other))
    offsets = {Partition("t", 0): 80, Partition("u", 0): 2}
    assert divided(lost, offsets) == [{Partition("t", 0): 80}, {Partition("u", 0): 2}]
    with pytest.raises(Refused, match="only what the table names"):
        divided(lost, {Partition("t", 7): 1})
    twice = divided(Lost(0.0, (LOSS, LOSS)), {Partition("t", 0): 80})
    assert twice == [{Partition("t", 0): 80}] * 2, "a source that is used twice has two lines, and both are moved"


def test_lag_is_counted_from_the_next_record_to_the_end_of_the_log() -> None:
    partitions = {0: SightedPartition(0, 90), 1: SightedPartition(0, 30), 2: SightedPartition(0, 5)}
    sighted = Sighted({"t": SightedTopic("id", partitions)})
    assert lag({**SAVED, Partition("gone", 0): Position(1, 1)}, sighted) == {"t": {"0": 40, "1": 0}}
