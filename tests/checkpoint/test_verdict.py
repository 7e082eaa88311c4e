"""Verdicts: torn offsets are set aside only if the batch certainly did not reach the sink."""

import pytest

from holdfast.checkpoint import CheckpointVerdict, FileSinkLog, KnownQuery, Query, judge_query
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.known_queries import KnownQueries
from tests.harness.checkpoint_trees import build_file_tree, checkpoint_files

FILE_SINK_QUERY = KnownQuery("/c/query-1", "words", "parquet", "/out", batch_id=3)
UNDAMAGED = examine(build_file_tree(checkpoint_files(5)))
TORN = examine(build_file_tree({**checkpoint_files(5), "offsets/5": b"v1"}))
EMPTY = examine(build_file_tree({}))


def test_undamaged_checkpoint_passes_with_any_sink() -> None:
    for known in (None, FILE_SINK_QUERY, KnownQuery("/c", format="foreachBatch")):
        assert judge_query(UNDAMAGED, known, FileSinkLog(4) if known == FILE_SINK_QUERY else None) == CheckpointVerdict()
    assert judge_query(UNDAMAGED, FILE_SINK_QUERY, FileSinkLog(5)) == CheckpointVerdict(), (
        "killed between the commit of the sink and that of the query"
    )


@pytest.mark.parametrize(
    ("known", "sink"),
    [(FILE_SINK_QUERY, FileSinkLog(4)), (FILE_SINK_QUERY, FileSinkLog(None)), (KnownQuery("/c", format="noop"), None)],
)
def test_torn_offsets_are_set_aside_if_the_batch_did_not_reach_the_sink(known: KnownQuery, sink: FileSinkLog | None) -> None:
    assert judge_query(TORN, known, sink) == CheckpointVerdict(batch_to_set_aside=5)


@pytest.mark.parametrize(
    ("known", "sink", "reason"),
    [
        (FILE_SINK_QUERY, FileSinkLog(5), "the sink already has batch 5"),
        (FILE_SINK_QUERY, None, "the sink cannot be read"),
        (KnownQuery("/c", format="foreachBatch"), None, "the sink (foreachBatch) cannot show whether batch 5 was written"),
        (KnownQuery("/c", format="kafka"), None, "the sink (kafka) cannot show"),
        (KnownQuery("/c"), None, "the sink cannot show"),
        (None, None, "the sink is unknown"),
    ],
)
def test_torn_offsets_park_the_job_if_the_batch_may_have_reached_the_sink(
    known: KnownQuery | None, sink: FileSinkLog | None, reason: str
) -> None:
    verdict = judge_query(TORN, known, sink)
    assert verdict.batch_to_set_aside is None
    assert len(verdict.problems) == 1
    assert verdict.problems[0].startswith("offsets/5 ends after its version line, and ") and reason in verdict.problems[0]


def test_torn_offsets_are_not_set_aside_beside_other_damage() -> None:
    also_damaged = examine(build_file_tree({**checkpoint_files(5), "offsets/5": b"v1", "metadata": b""}))
    verdict = judge_query(also_damaged, FILE_SINK_QUERY, FileSinkLog(4))
    assert verdict.batch_to_set_aside is None
    assert [problem.partition(" ")[0] for problem in verdict.problems] == ["metadata", "offsets/5"]


@pytest.mark.parametrize("query", [None, EMPTY])
def test_missing_checkpoint_never_starts_from_scratch(query: Query | None) -> None:
    (problem,) = judge_query(query, FILE_SINK_QUERY, None).problems
    assert problem == "it no longer exists, but batch 3 was committed: the query would start from scratch"
    assert judge_query(query, KnownQuery("/c"), None) == CheckpointVerdict(), "no batch is known to be committed"


def test_checkpoint_without_known_batches_parks_the_job() -> None:
    (problem,) = judge_query(examine(build_file_tree(checkpoint_files(2))), FILE_SINK_QUERY, None).problems
    assert problem.startswith("its newest commit is commits/1, but batch 3 was committed")


def test_sink_ahead_of_or_behind_the_checkpoint_parks_the_job() -> None:
    assert "would skip the next batches" in judge_query(UNDAMAGED, FILE_SINK_QUERY, FileSinkLog(6)).problems[0]
    assert "the output of later batches is missing" in judge_query(UNDAMAGED, FILE_SINK_QUERY, FileSinkLog(2)).problems[0]


def test_known_batch_id_never_decreases() -> None:
    known = KnownQueries().with_query(KnownQuery("/c", batch_id=7)).with_query(KnownQuery("/d"))
    later = known.with_query(KnownQuery("/c", format="noop", batch_id=3)).with_query(KnownQuery("/c", format="noop"))
    assert later.find("/c") == KnownQuery("/c", format="noop", batch_id=7)
    assert later.with_query(KnownQuery("/d")) is later
