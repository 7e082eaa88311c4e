"""What follows from findings: nothing is set aside unless it is proved that nothing of its batch took effect."""

import pytest

from holdfast.checkpoint import KnownQuery, Query, Sink, Verdict, judge
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.known_queries import Known
from tests.harness.checkpoint_trees import checkpoint, tree

FILES = KnownQuery("/c/query-1", "words", "parquet", "/out", batch_id=3)
WHOLE = examine(tree(checkpoint(5)))
TORN = examine(tree({**checkpoint(5), "offsets/5": b"v1"}))
GONE = examine(tree({}))


def test_a_checkpoint_that_is_whole_is_fine_whatever_its_sink_is() -> None:
    for known in (None, FILES, KnownQuery("/c", format="foreachBatch")):
        assert judge(WHOLE, known, Sink(4) if known == FILES else None) == Verdict()
    assert judge(WHOLE, FILES, Sink(5)) == Verdict(), "killed between the sink's commit and its own"


@pytest.mark.parametrize(("known", "sink"), [(FILES, Sink(4)), (FILES, Sink(None)), (KnownQuery("/c", format="noop"), None)])
def test_a_torn_file_of_offsets_is_set_aside_where_the_sink_proves_that_nothing_took_effect(
    known: KnownQuery, sink: Sink | None
) -> None:
    assert judge(TORN, known, sink) == Verdict(aside=5)


@pytest.mark.parametrize(
    ("known", "sink", "said"),
    [
        (FILES, Sink(5), "its sink has batch 5 already"),
        (FILES, None, "its sink cannot be looked at"),
        (KnownQuery("/c", format="foreachBatch"), None, "its sink (foreachBatch) cannot tell whether batch 5 took effect"),
        (KnownQuery("/c", format="kafka"), None, "its sink (kafka) cannot tell"),
        (KnownQuery("/c"), None, "its sink cannot tell"),
        (None, None, "nobody knows what its sink is"),
    ],
)
def test_without_that_proof_the_job_is_parked(known: KnownQuery | None, sink: Sink | None, said: str) -> None:
    verdict = judge(TORN, known, sink)
    assert verdict.aside is None
    assert len(verdict.problems) == 1
    assert verdict.problems[0].startswith("offsets/5 ends after its version, and ") and said in verdict.problems[0]


def test_nothing_is_set_aside_if_anything_else_is_wrong() -> None:
    worse = examine(tree({**checkpoint(5), "offsets/5": b"v1", "metadata": b""}))
    verdict = judge(worse, FILES, Sink(4))
    assert verdict.aside is None
    assert [problem.partition(" ")[0] for problem in verdict.problems] == ["metadata", "offsets/5"]


@pytest.mark.parametrize("query", [None, GONE])
def test_a_checkpoint_that_vanished_is_never_a_start_from_scratch(query: Query | None) -> None:
    (problem,) = judge(query, FILES, None).problems
    assert problem == "there is none any more, and batch 3 had been committed: it would start from scratch"
    assert judge(query, KnownQuery("/c"), None) == Verdict(), "of which no batch is known"


def test_a_checkpoint_that_went_back_is_not_run_from() -> None:
    (problem,) = judge(examine(tree(checkpoint(2))), FILES, None).problems
    assert problem.startswith("it has commits/1 as its newest commit, and batch 3 had been committed")


def test_a_sink_that_is_ahead_would_skip_batches_and_one_that_is_behind_has_lost_some() -> None:
    assert "would be skipped as done" in judge(WHOLE, FILES, Sink(6)).problems[0]
    assert "what it wrote is gone" in judge(WHOLE, FILES, Sink(2)).problems[0]


def test_no_batch_that_is_known_is_forgotten() -> None:
    known = Known().with_another(KnownQuery("/c", batch_id=7)).with_another(KnownQuery("/d"))
    later = known.with_another(KnownQuery("/c", format="noop", batch_id=3)).with_another(KnownQuery("/c", format="noop"))
    assert later.at("/c") == KnownQuery("/c", format="noop", batch_id=7)
    assert later.with_another(KnownQuery("/d")) is later
