"""Checkpoints of deleted jobs are removed completely or not at all, from a directory and from S3."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.model import codec
from holdfast.storage import CheckpointClaim, Claims, NotRemovable, remove_deleted_checkpoint
from holdfast.storage.checkpoint_removal import CheckpointRemover
from holdfast.storage.filesystem.files import Files, open_files
from holdfast.storage.filesystem.local_files import LocalFiles
from holdfast.storage.location import CHECKPOINTS, parse_location
from tests.harness.checkpoint_trees import checkpoint_files, with_state

CLUSTER, JOB = "c", "j1"
SPARK_FILES = {
    **{f"words/{path}": data for path, data in with_state(checkpoint_files(2), 2).items()},
    **{f"query-1/{path}": data for path, data in checkpoint_files(1).items()},
    **{f"nested/deep/{path}": data for path, data in checkpoint_files(0).items()},
    **checkpoint_files(1),
    ".metadata.crc": b"crc",
    "offsets/.0.crc": b"crc",
    "words/..metadata.6f8b9a1e.tmp.crc": b"crc",
}


def claim(job: str = JOB, cluster: str = CLUSTER, attempt: int = 1) -> CheckpointClaim:
    return CheckpointClaim(cluster, job, attempt, "n1", "nonce")


def checkpoint(location: str, job: str = JOB) -> Files:
    return open_files(parse_location(location).join(CHECKPOINTS, job))


def write_files(files: Files, contents: Mapping[str, bytes]) -> None:
    for path, data in contents.items():
        with files.open_writer(path) as write:
            write(memoryview(data))


def make_checkpoint(location: str, job: str = JOB, contents: Mapping[str, bytes] = SPARK_FILES) -> None:
    """Write a checkpoint with the claims and outcomes of two attempts."""
    write_files(checkpoint(location, job), contents)
    claims = Claims(str(parse_location(location).join(CHECKPOINTS, job)), in_subprocess=False)
    for attempt in (1, 2):
        claims.claim(claim(job, attempt=attempt))
        claims.write_outcome(attempt, {"ending": "finished"})


def list_files(location: str, job: str = JOB) -> set[str]:
    return {file.path for file in checkpoint(location, job).walk()[0]}


def remove(location: str, job: str = JOB, cluster: str = CLUSTER) -> int:
    return remove_deleted_checkpoint(location, cluster, job, in_subprocess=False)


def test_checkpoint_with_its_claims_is_removed_and_the_others_stay(location: str) -> None:
    make_checkpoint(location)
    make_checkpoint(location, "j10")
    others, savepoints = list_files(location, "j10"), open_files(parse_location(location).join("savepoints"))
    write_files(savepoints, {"s1/manifest.json": b"{}"})
    assert remove(location) == len(SPARK_FILES) + 4
    assert list_files(location) == set()
    assert JOB not in open_files(parse_location(location).join(CHECKPOINTS)).list_folders()
    assert list_files(location, "j10") == others and len(savepoints.walk()[0]) == 1


def test_checkpoint_is_removed_by_a_subprocess(location: str) -> None:
    make_checkpoint(location)
    assert remove_deleted_checkpoint(location, CLUSTER, JOB) == len(SPARK_FILES) + 4
    assert list_files(location) == set()


def test_removal_of_a_missing_checkpoint_does_nothing(location: str) -> None:
    make_checkpoint(location, "j10")
    assert remove(location) == 0
    assert list_files(location, "j10")


KEPT: dict[str, tuple[Mapping[str, bytes], str]] = {
    "table of a pipeline": ({"warehouse/t/part-0.parquet": b"rows"}, "warehouse/t/part-0.parquet is not part of"),
    "catalog": ({"catalog/service.properties": b"p"}, "not part of a Spark checkpoint"),
    "output beside the query": ({"words/out/part-0.parquet": b"rows"}, "not part of a Spark checkpoint"),
    "location of another job": (
        {"words/_holdfast/claim-7": codec.encode(claim("j2", attempt=7))},
        "words/_holdfast/claim-7 belongs to the job j2 of the cluster 'c'",
    ),
    "claim of another cluster": (
        {"_holdfast/claim-3": codec.encode(claim(cluster="green", attempt=3))},
        "belongs to the job j1 of the cluster 'green'",
    ),
    "unreadable claim": ({"_holdfast/claim-3": b"noise"}, "the owner of a part of it is unknown"),
    "claim of a later release": ({"_holdfast/claim-3": b'{"schema":99}'}, "the owner of a part of it is unknown"),
}


@pytest.mark.parametrize("name", KEPT)
def test_checkpoint_that_is_not_certainly_of_the_job_alone_is_kept(location: str, name: str) -> None:
    extra, reason = KEPT[name]
    make_checkpoint(location)
    write_files(checkpoint(location), extra)
    before = list_files(location)
    with pytest.raises(NotRemovable, match=reason):
        remove(location)
    assert list_files(location) == before


def test_checkpoint_of_another_job_or_cluster_is_kept(location: str) -> None:
    make_checkpoint(location)
    before = list_files(location)
    with pytest.raises(NotRemovable, match="belongs to the job j1 of the cluster 'c'"):
        remove(location, cluster="green")
    assert list_files(location) == before


@pytest.mark.parametrize("claims", [{}, {"_holdfast/claim-1": b""}, {"words/_holdfast/claim-1": codec.encode(claim())}])
def test_checkpoint_without_a_completed_claim_at_its_root_is_kept(location: str, claims: Mapping[str, bytes]) -> None:
    """Such a checkpoint may be the copy of a savepoint for a job that never started."""
    write_files(checkpoint(location), {**SPARK_FILES, **claims})
    with pytest.raises(NotRemovable, match="no claim shows which job it belongs to"):
        remove(location)
    assert set(SPARK_FILES) <= list_files(location)


def test_empty_claim_of_an_attempt_that_never_started_does_not_keep_the_checkpoint(location: str) -> None:
    make_checkpoint(location)
    write_files(checkpoint(location), {"_holdfast/claim-3": b"\0\0"})
    assert remove(location) == len(SPARK_FILES) + 5


class Interrupted(Exception):
    """End of the process in the middle of a removal."""


class InterruptedFiles(LocalFiles):
    """Files of a process that ends after some removals."""

    def __init__(self, root: Path, removals: Iterator[int]) -> None:
        super().__init__(root)
        self._removals = removals

    def _count_removal(self) -> None:
        if next(self._removals, None) is None:
            raise Interrupted

    def remove_file(self, path: str) -> None:
        self._count_removal()
        super().remove_file(path)

    def remove_tree(self) -> None:
        self._count_removal()
        super().remove_tree()

    def subtree(self, *names: str) -> "InterruptedFiles":
        return InterruptedFiles(self._root.joinpath(*names), self._removals)


@pytest.mark.parametrize("removals", range(9))
def test_interrupted_removal_is_continued(directory: Path, removals: int) -> None:
    """The claims are removed last: without them, the rest would be kept forever."""
    make_checkpoint(str(directory))
    files = InterruptedFiles(directory / CHECKPOINTS / JOB, iter(range(removals)))
    with pytest.raises(Interrupted):
        CheckpointRemover(files).remove_owned(CLUSTER, JOB)
    assert remove(str(directory)) > 0
    assert not (directory / CHECKPOINTS / JOB).exists()


@pytest.mark.slow
def test_unreachable_storage_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    location = f"s3://bucket/x?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    with pytest.raises(Unavailable):
        remove_deleted_checkpoint(location, CLUSTER, JOB, stall_timeout_s=20)
