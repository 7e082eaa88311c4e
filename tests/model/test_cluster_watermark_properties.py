"""Whatever a ZooKeeper comes back with: progress is never objected to, and a step back always is."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.cluster_watermark import Sighting

counts = st.integers(min_value=0, max_value=2**31 - 1)
sightings = st.builds(Sighting, cluster_id=st.text(max_size=8), epoch=counts, beat=counts)


def moved(seen: Sighting, *, epoch: int, beat: int) -> Sighting:
    return Sighting(seen.cluster_id, seen.epoch + epoch, seen.beat + beat)


@settings(max_examples=100, deadline=None)
@given(seen=sightings, epochs=counts, beats=counts)
def test_progress_is_never_objected_to(seen: Sighting, epochs: int, beats: int) -> None:
    assert seen.objection_to(moved(seen, epoch=epochs, beat=beats)) is None


@settings(max_examples=100, deadline=None)
@given(seen=sightings, epochs=st.integers(min_value=1), beats=st.integers())
def test_a_lower_epoch_is_never_accepted(seen: Sighting, epochs: int, beats: int) -> None:
    assert seen.objection_to(moved(seen, epoch=-epochs, beat=beats)) is not None


@settings(max_examples=100, deadline=None)
@given(seen=sightings, beats=st.integers(min_value=1))
def test_a_lower_beat_of_the_same_epoch_is_never_accepted(seen: Sighting, beats: int) -> None:
    assert seen.objection_to(moved(seen, epoch=0, beat=-beats)) is not None


@settings(max_examples=50, deadline=None)
@given(seen=sightings, epochs=counts, beats=st.integers(min_value=1))
def test_a_lower_beat_is_never_accepted(seen: Sighting, epochs: int, beats: int) -> None:
    """Both counters are versions of znodes that are never deleted: neither can go back in a ZooKeeper that kept its data."""
    assert seen.objection_to(moved(seen, epoch=epochs, beat=-beats)) is not None


@settings(max_examples=100, deadline=None)
@given(seen=sightings, now=sightings)
def test_another_cluster_and_an_empty_one_are_never_accepted(seen: Sighting, now: Sighting) -> None:
    assert seen.objection_to(None) is not None
    assume(now.cluster_id != seen.cluster_id)
    assert seen.objection_to(now) is not None


@settings(max_examples=100, deadline=None)
@given(seen=sightings, now=sightings)
def test_two_that_accept_each_other_are_never_different(seen: Sighting, now: Sighting) -> None:
    """Otherwise a ZooKeeper could go back and forth unnoticed."""
    both = seen.objection_to(now) is None and now.objection_to(seen) is None
    assert not both or seen == now
