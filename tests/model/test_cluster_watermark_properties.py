"""Properties of watermarks: progress is always accepted, a step back never."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.cluster_watermark import ClusterWatermark

counts = st.integers(min_value=0, max_value=2**31 - 1)
watermarks = st.builds(ClusterWatermark, cluster_id=st.text(max_size=8), epoch=counts, beat=counts)


def advance(seen: ClusterWatermark, *, epoch: int, beat: int) -> ClusterWatermark:
    return ClusterWatermark(seen.cluster_id, seen.epoch + epoch, seen.beat + beat)


@settings(max_examples=100, deadline=None)
@given(seen=watermarks, epochs=counts, beats=counts)
def test_progress_is_always_accepted(seen: ClusterWatermark, epochs: int, beats: int) -> None:
    assert seen.mismatch_with(advance(seen, epoch=epochs, beat=beats)) is None


@settings(max_examples=100, deadline=None)
@given(seen=watermarks, epochs=st.integers(min_value=1), beats=st.integers())
def test_a_lower_epoch_is_never_accepted(seen: ClusterWatermark, epochs: int, beats: int) -> None:
    assert seen.mismatch_with(advance(seen, epoch=-epochs, beat=beats)) is not None


@settings(max_examples=100, deadline=None)
@given(seen=watermarks, beats=st.integers(min_value=1))
def test_a_lower_beat_of_the_same_epoch_is_never_accepted(seen: ClusterWatermark, beats: int) -> None:
    assert seen.mismatch_with(advance(seen, epoch=0, beat=-beats)) is not None


@settings(max_examples=50, deadline=None)
@given(seen=watermarks, epochs=counts, beats=st.integers(min_value=1))
def test_a_lower_beat_is_never_accepted(seen: ClusterWatermark, epochs: int, beats: int) -> None:
    """Both counters are versions of znodes that are never deleted, so neither decreases in a ZooKeeper that kept its data."""
    assert seen.mismatch_with(advance(seen, epoch=epochs, beat=-beats)) is not None


@settings(max_examples=100, deadline=None)
@given(seen=watermarks, current=watermarks)
def test_another_cluster_or_an_empty_one_is_never_accepted(seen: ClusterWatermark, current: ClusterWatermark) -> None:
    assert seen.mismatch_with(None) is not None
    assume(current.cluster_id != seen.cluster_id)
    assert seen.mismatch_with(current) is not None


@settings(max_examples=100, deadline=None)
@given(seen=watermarks, current=watermarks)
def test_watermarks_that_accept_each_other_are_equal(seen: ClusterWatermark, current: ClusterWatermark) -> None:
    """Otherwise ZooKeeper could alternate between two states unnoticed."""
    both = seen.mismatch_with(current) is None and current.mismatch_with(seen) is None
    assert not both or seen == current
