"""What a node remembers of its ZooKeeper, and what it objects to."""

import pytest

from holdfast.model.cluster_watermark import Sighting

SEEN = Sighting("5-18c", epoch=7, beat=100)


@pytest.mark.parametrize(
    "now",
    [SEEN, Sighting("5-18c", 7, 101), Sighting("5-18c", 8, 100), Sighting("5-18c", 9, 5000)],
    ids=["the same", "a beat later", "an epoch later", "much later"],
)
def test_the_same_cluster_later_on_is_recognized(now: Sighting) -> None:
    assert SEEN.objection_to(now) is None


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (None, "came back empty: this node has seen epoch 7"),
        (Sighting("6-18d", 7, 100), "another cluster (6-18d, not 5-18c)"),
        (Sighting("6-18d", 900, 9000), "another cluster (6-18d, not 5-18c)"),
        (Sighting("5-18c", 7, 99), "came back older: epoch 7 beat 99, but this node has seen epoch 7 beat 100"),
        (Sighting("5-18c", 6, 100), "came back older: epoch 6 beat 100"),
        (Sighting("5-18c", 6, 9000), "came back older: epoch 6 beat 9000"),
    ],
    ids=["empty", "another", "another and further", "a beat earlier", "an epoch earlier", "an epoch earlier, more beats"],
)
def test_a_zookeeper_that_lost_something_is_objected_to_in_one_sentence(now: Sighting | None, says: str) -> None:
    assert says in (SEEN.objection_to(now) or "")


def test_an_old_copy_on_which_others_went_on_is_objected_to() -> None:
    """Restored at epoch 5 beat 50; nodes that remember nothing then take epoch 8. The beat, which only grows, tells."""
    assert SEEN.objection_to(Sighting("5-18c", 8, 51)) is not None
