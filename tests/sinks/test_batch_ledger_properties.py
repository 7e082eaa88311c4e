"""What is written, skipped and refused, for every history of attempts that a ledger can have."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import OutputRefused, Superseded
from holdfast.sinks import batch_ledger
from holdfast.sinks.batch_ledger import (
    NOBODY,
    Batch,
    Decision,
    Different,
    Foreign,
    Forgotten,
    Gap,
    Owner,
    Recorded,
    Skip,
    Write,
    decide,
)
from holdfast.sinks.refusal_message import refused

OWNERS = [Owner("j1", "q1"), Owner("j1", "q2"), Owner("j2", "q1"), Owner("", "q1")]
owners = st.sampled_from(OWNERS)
adoptions = st.one_of(st.none(), st.just(NOBODY), owners.map(str))
batches = st.builds(Batch, owners, st.integers(0, 4), st.integers(0, 6), st.one_of(st.none(), st.sampled_from("ab")))


@dataclass
class Output:
    """A sink as simple as can be: it does what it is told, and keeps what it was told."""

    recorded: Recorded | None = None
    rows: list[Batch] = field(default_factory=list)

    def take(self, batch: Batch, adopt: str | None) -> Decision:
        decision = decide(self.recorded, batch, adopt)
        if isinstance(decision, Write):
            self.rows.append(batch)
            kept = {} if self.recorded is None or decision.adopts else dict(self.recorded.digests)
            self.recorded = Recorded(batch.owner, batch.attempt, batch.id + 1, {**kept, batch.id: batch.digest})
        return decision


@given(st.lists(st.tuples(batches, adoptions), max_size=40))
def test_an_owners_batches_are_contiguous_and_each_is_there_once(history: list[tuple[Batch, str | None]]) -> None:
    output = Output()
    for batch, adopt in history:
        output.take(batch, adopt)
    for before, after in zip(output.rows, output.rows[1:], strict=False):
        if before.owner == after.owner:
            assert after.id == before.id + 1


@given(st.lists(batches, max_size=40))
def test_nobody_else_is_let_in_unless_a_person_says_so(history: list[Batch]) -> None:
    output = Output()
    for batch in history:
        output.take(batch, None)
    assert len({batch.owner for batch in output.rows}) <= 1
    assert [batch.id for batch in output.rows] == list(range(len(output.rows)))


@given(st.lists(st.tuples(batches, adoptions), max_size=40))
def test_attempts_of_an_owner_never_go_back(history: list[tuple[Batch, str | None]]) -> None:
    output = Output()
    for batch, adopt in history:
        before = output.recorded
        decision = output.take(batch, adopt)
        if before is not None and before.owner == batch.owner and before.attempt > batch.attempt:
            assert decision == batch_ledger.Superseded(before.attempt)


@given(batches, adoptions)
def test_a_batch_that_was_written_is_skipped_and_never_silently_if_it_differs(batch: Batch, adopt: str | None) -> None:
    output = Output()
    first = replace(batch, id=0)
    assert output.take(first, adopt) == Write()
    assert output.take(replace(first, attempt=first.attempt + 1), adopt) == Skip()
    if first.digest is not None:
        assert output.take(replace(first, digest="other"), adopt) == Different()
    assert output.rows == [first]


def test_an_output_that_is_somebody_elses_is_continued_only_under_that_name() -> None:
    me, other = OWNERS[0], OWNERS[2]
    batch = Batch(me, 1, 0, None)
    for recorded, name in ((Recorded(None), NOBODY), (Recorded(other, 9, 5, {}), str(other))):
        assert decide(recorded, batch) == Foreign(recorded.owner)
        assert decide(recorded, batch, "j9/q9") == Foreign(recorded.owner)
        assert decide(recorded, batch, name) == Write(adopts=True)


def test_what_is_missing_or_forgotten_is_no_reason_to_write() -> None:
    me = OWNERS[0]
    assert decide(None, Batch(me, 1, 3, None)) == Gap(0)
    assert decide(None, Batch(me, 1, 3, None), NOBODY) == Write(adopts=True)
    assert decide(Recorded(me, 1, 3, {}), Batch(me, 1, 4, None), NOBODY) == Gap(3)
    assert decide(Recorded(me, 1, 3, {2: None}), Batch(me, 1, 1, None), NOBODY) == Forgotten()


@given(st.one_of(st.none(), st.builds(Recorded, st.one_of(st.none(), owners), st.integers(0, 4), st.integers(0, 6))), batches)
def test_every_refusal_is_a_sentence_with_its_choices(recorded: Recorded | None, batch: Batch) -> None:
    decision = decide(recorded, batch)
    if isinstance(decision, Write | Skip):
        return
    error = refused(decision, batch, "/data/out")
    assert isinstance(error, OutputRefused | Superseded)
    assert "/data/out" in str(error) and "\n" not in str(error) and len(str(error)) < 300
    if isinstance(error, OutputRefused):
        assert "another place" in str(error) or "new checkpoint" in str(error)
