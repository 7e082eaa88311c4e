"""Properties of the batch ledger: decisions for arbitrary histories of attempts."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import OutputRefused, Superseded
from holdfast.sinks import batch_ledger
from holdfast.sinks.batch_ledger import (
    UNOWNED,
    BatchForgotten,
    BatchGap,
    BatchIdentity,
    Decision,
    DifferentInput,
    OutputRecord,
    OwnedByOther,
    Owner,
    SkipBatch,
    WriteBatch,
    decide_batch,
)
from holdfast.sinks.refusal_message import refusal_error

OWNERS = [Owner("j1", "q1"), Owner("j1", "q2"), Owner("j2", "q1"), Owner("", "q1")]
owners = st.sampled_from(OWNERS)
adoptions = st.one_of(st.none(), st.just(UNOWNED), owners.map(str))
batches = st.builds(BatchIdentity, owners, st.integers(0, 4), st.integers(0, 6), st.one_of(st.none(), st.sampled_from("ab")))


@dataclass
class LedgerModel:
    """Minimal output that applies each decision and keeps the record."""

    recorded: OutputRecord | None = None
    rows: list[BatchIdentity] = field(default_factory=list)

    def apply(self, batch: BatchIdentity, adopt: str | None) -> Decision:
        decision = decide_batch(self.recorded, batch, adopt)
        if isinstance(decision, WriteBatch):
            self.rows.append(batch)
            digests = {} if self.recorded is None or decision.adopts else dict(self.recorded.digests)
            self.recorded = OutputRecord(batch.owner, batch.attempt, batch.id + 1, {**digests, batch.id: batch.digest})
        return decision


@pytest.mark.slow
@given(st.lists(st.tuples(batches, adoptions), max_size=40))
def test_batches_of_an_owner_are_contiguous_and_unique(history: list[tuple[BatchIdentity, str | None]]) -> None:
    output = LedgerModel()
    for batch, adopt in history:
        output.apply(batch, adopt)
    for before, after in zip(output.rows, output.rows[1:], strict=False):
        if before.owner == after.owner:
            assert after.id == before.id + 1


@pytest.mark.slow
@given(st.lists(batches, max_size=40))
def test_output_has_one_owner_without_adoption(history: list[BatchIdentity]) -> None:
    output = LedgerModel()
    for batch in history:
        output.apply(batch, None)
    assert len({batch.owner for batch in output.rows}) <= 1
    assert [batch.id for batch in output.rows] == list(range(len(output.rows)))


@pytest.mark.slow
@given(st.lists(st.tuples(batches, adoptions), max_size=40))
def test_older_attempt_of_an_owner_is_superseded(history: list[tuple[BatchIdentity, str | None]]) -> None:
    output = LedgerModel()
    for batch, adopt in history:
        before = output.recorded
        decision = output.apply(batch, adopt)
        if before is not None and before.owner == batch.owner and before.attempt > batch.attempt:
            assert decision == batch_ledger.SupersededBy(before.attempt)


@given(batches, adoptions)
def test_written_batch_is_skipped_if_equal_and_refused_if_different(batch: BatchIdentity, adopt: str | None) -> None:
    output = LedgerModel()
    first = replace(batch, id=0)
    assert output.apply(first, adopt) == WriteBatch()
    assert output.apply(replace(first, attempt=first.attempt + 1), adopt) == SkipBatch()
    if first.digest is not None:
        assert output.apply(replace(first, digest="other"), adopt) == DifferentInput()
    assert output.rows == [first]


def test_foreign_output_is_continued_only_with_its_owner_as_adopt() -> None:
    me, other = OWNERS[0], OWNERS[2]
    batch = BatchIdentity(me, 1, 0, None)
    for recorded, name in ((OutputRecord(None), UNOWNED), (OutputRecord(other, 9, 5, {}), str(other))):
        assert decide_batch(recorded, batch) == OwnedByOther(recorded.owner)
        assert decide_batch(recorded, batch, "j9/q9") == OwnedByOther(recorded.owner)
        assert decide_batch(recorded, batch, name) == WriteBatch(adopts=True)


def test_gap_and_forgotten_batch_are_refused() -> None:
    me = OWNERS[0]
    assert decide_batch(None, BatchIdentity(me, 1, 3, None)) == BatchGap(0)
    assert decide_batch(None, BatchIdentity(me, 1, 3, None), UNOWNED) == WriteBatch(adopts=True)
    assert decide_batch(OutputRecord(me, 1, 3, {}), BatchIdentity(me, 1, 4, None), UNOWNED) == BatchGap(3)
    assert decide_batch(OutputRecord(me, 1, 3, {2: None}), BatchIdentity(me, 1, 1, None), UNOWNED) == BatchForgotten()


@given(
    st.one_of(st.none(), st.builds(OutputRecord, st.one_of(st.none(), owners), st.integers(0, 4), st.integers(0, 6))), batches
)
def test_every_refusal_is_one_sentence_with_choices(recorded: OutputRecord | None, batch: BatchIdentity) -> None:
    decision = decide_batch(recorded, batch)
    if isinstance(decision, WriteBatch | SkipBatch):
        return
    error = refusal_error(decision, batch, "/data/out")
    assert isinstance(error, OutputRefused | Superseded)
    assert "/data/out" in str(error) and "\n" not in str(error) and len(str(error)) < 300
    if isinstance(error, OutputRefused):
        assert "another output" in str(error) or "new checkpoint" in str(error)
