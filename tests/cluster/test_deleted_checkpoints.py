"""A real node deletes the checkpoints of deleted jobs from its storage after `cluster.keep_checkpoints`."""

import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from holdfast.leader.checkpoint_collector import FIRST_ROUND_S
from holdfast.model.cluster_records import TombstoneRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import JobId
from holdfast.storage import CheckpointClaim, Claims
from holdfast.zk.records.paths import Paths
from tests.harness.checkpoint_trees import checkpoint_files
from tests.harness.cluster.nodes import FAST_TIMING, start_node
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]

KEEP_S = 3600.0


def make_checkpoint(storage: Path, cluster: str, job: str) -> Path:
    root = storage / "checkpoints" / job
    for path, data in checkpoint_files(2).items():
        (root / "words" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "words" / path).write_bytes(data)
    Claims(str(root)).claim(CheckpointClaim(cluster, job, 1, "n1", "nonce"))
    return root


def test_leader_deletes_only_checkpoints_with_an_expired_tombstone(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    paths, storage = Paths(cluster), tmp_path / "storage"
    storage.mkdir()
    roots = {job: make_checkpoint(storage, cluster, job) for job in ("expired", "recent", "unrecorded")}
    for job, age_s in (("expired", KEEP_S + 10), ("recent", KEEP_S - 600)):
        operator.create(paths.tombstone(JobId(job)), encode(TombstoneRecord(time.time() - age_s)), makepath=True)
    table = {"storage": str(storage), "keep_checkpoints": KEEP_S}
    with start_node(tmp_path, connect, cluster=cluster, settings={**FAST_TIMING, "cluster": table}) as node:
        wait_until(node.is_leading, 60, "the node leads")
        wait_until(lambda: not roots["expired"].exists(), FIRST_ROUND_S + 60, "the expired checkpoint is deleted")
        expired = paths.tombstone(JobId("expired"))
        wait_until(lambda: operator.exists(expired) is None, 30, "the tombstone is deleted")
        events = node.events("checkpoint deleted")
    assert [(event["job"], event["files"]) for event in events] == [("expired", len(checkpoint_files(2)) + 1)]
    assert operator.exists(paths.tombstone(JobId("recent"))) is not None
    for job in ("recent", "unrecorded"):
        assert all((roots[job] / "words" / path).exists() for path in checkpoint_files(2))
