"""Watermark of a cluster: detection of a ZooKeeper that lost data."""

import pytest

from holdfast.model.cluster_watermark import ClusterWatermark

SEEN = ClusterWatermark("5-18c", epoch=7, beat=100)


@pytest.mark.parametrize(
    "current",
    [SEEN, ClusterWatermark("5-18c", 7, 101), ClusterWatermark("5-18c", 8, 100), ClusterWatermark("5-18c", 9, 5000)],
    ids=["the same", "a beat later", "an epoch later", "much later"],
)
def test_later_state_of_the_same_cluster_is_accepted(current: ClusterWatermark) -> None:
    assert SEEN.mismatch_with(current) is None


@pytest.mark.parametrize(
    ("current", "message"),
    [
        (None, "came back empty: this node has seen epoch 7"),
        (ClusterWatermark("6-18d", 7, 100), "another cluster (6-18d, not 5-18c)"),
        (ClusterWatermark("6-18d", 900, 9000), "another cluster (6-18d, not 5-18c)"),
        (ClusterWatermark("5-18c", 7, 99), "came back older: epoch 7 beat 99, but this node has seen epoch 7 beat 100"),
        (ClusterWatermark("5-18c", 6, 100), "came back older: epoch 6 beat 100"),
        (ClusterWatermark("5-18c", 6, 9000), "came back older: epoch 6 beat 9000"),
    ],
    ids=["empty", "another", "another and further", "a beat earlier", "an epoch earlier", "an epoch earlier, more beats"],
)
def test_lost_or_different_data_is_reported(current: ClusterWatermark | None, message: str) -> None:
    assert message in (SEEN.mismatch_with(current) or "")


def test_old_backup_that_other_nodes_have_continued_is_reported() -> None:
    """A backup of epoch 5, beat 50 is restored, and nodes without a watermark reach epoch 8. The lower beat reveals it."""
    assert SEEN.mismatch_with(ClusterWatermark("5-18c", 8, 51)) is not None
