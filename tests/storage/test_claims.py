"""Claims of checkpoints, in a directory and in a real S3 server."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.storage import (
    AlreadyClaimed,
    CheckpointClaim,
    Claims,
    ForeignCheckpoint,
    checkpoint_location,
    spark_checkpoint_uri,
)
from tests.harness.processes import run_on_small_disk, run_without_root_powers
from tests.harness.s3 import Bucket

WriteRaw = Callable[[str, bytes], None]


def claim(attempt: int, *, job: str = "job-1", cluster: str = "c1", nonce: str = "") -> CheckpointClaim:
    return CheckpointClaim(cluster=cluster, job=job, attempt=attempt, node="n1", nonce=nonce or f"{job}-{attempt}")


@pytest.fixture
def checkpoint(location: str) -> str:
    return checkpoint_location(spark_checkpoint_uri(location, "job-1"), location)


@pytest.fixture
def claims(checkpoint: str) -> Claims:
    return Claims(checkpoint, in_subprocess=False)


@pytest.fixture
def write_raw(checkpoint: str, request: pytest.FixtureRequest) -> WriteRaw:
    """Function that writes bytes to a file in `_holdfast` directly."""
    if checkpoint.startswith("s3:"):
        bucket: Bucket = request.getfixturevalue("bucket")
        return lambda name, data: bucket.put(f"checkpoints/job-1/_holdfast/{name}", data)

    def write(name: str, data: bytes) -> None:
        folder = Path(checkpoint) / "_holdfast"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return write


def test_new_checkpoint_has_no_owner(claims: Claims) -> None:
    assert claims.read_owner() is None
    assert claims.list_attempts() == []
    assert claims.read_latest_outcome() is None
    assert claims.read_outcome(1) is None


def test_newest_claim_determines_the_owner(claims: Claims) -> None:
    claims.claim(claim(1))
    assert claims.read_owner() == claim(1)
    claims.claim(claim(3))
    assert claims.read_owner() == claim(3)
    assert claims.list_attempts() == [1, 3]


def test_attempt_number_cannot_be_claimed_twice(claims: Claims) -> None:
    claims.claim(claim(2))
    with pytest.raises(AlreadyClaimed, match=r"cannot claim .* for attempt 2: attempt 2 has already claimed it"):
        claims.claim(claim(2, nonce="another"))
    with pytest.raises(Conflict):
        claims.claim(claim(1))
    assert claims.read_owner() == claim(2)
    assert claims.list_attempts() == [2]


def test_claim_with_the_same_nonce_can_be_repeated(claims: Claims) -> None:
    claims.claim(claim(1))
    claims.claim(claim(1))
    claims.claim(claim(2))
    with pytest.raises(AlreadyClaimed):
        claims.claim(claim(1))


@pytest.mark.parametrize("other", [claim(2, job="job-2"), claim(2, cluster="c2")], ids=["another job", "another cluster"])
def test_checkpoint_of_another_job_or_cluster_is_refused_and_unchanged(claims: Claims, other: CheckpointClaim) -> None:
    claims.claim(claim(1))
    with pytest.raises(ForeignCheckpoint, match=r"belongs to the job job-1.*, whose attempt 1 used it") as refused:
        claims.claim(other)
    assert ("of the cluster 'c1'" in str(refused.value)) == (other.cluster == "c2")
    assert claims.list_attempts() == [1]


def test_next_attempt_reads_the_outcome_of_the_previous_one(claims: Claims) -> None:
    claims.claim(claim(1))
    claims.write_outcome(1, {"ending": "finished", "reason": "Ende gut, alles gut ✓"})
    assert claims.read_outcome(1) == {"ending": "finished", "reason": "Ende gut, alles gut ✓"}
    claims.claim(claim(2))
    assert claims.read_outcome(2) is None
    assert claims.read_latest_outcome() == (1, {"ending": "finished", "reason": "Ende gut, alles gut ✓"})
    claims.write_outcome(2, json.dumps({"ending": "failed"}).encode())
    assert claims.read_latest_outcome() == (2, {"ending": "failed"})


def test_outcome_can_be_replaced_and_needs_no_claim(claims: Claims) -> None:
    claims.write_outcome(1, {"a": 1})
    claims.write_outcome(1, {"a": 2})
    assert claims.read_outcome(1) == {"a": 2}
    with pytest.raises(AlreadyClaimed):  # an attempt with an outcome was used
        claims.claim(claim(1))


MALFORMED_OUTCOMES = [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000, b"x" * 400_000]


@pytest.mark.parametrize("data", MALFORMED_OUTCOMES, ids=range(len(MALFORMED_OUTCOMES)))
def test_malformed_outcome_is_ignored_with_a_warning(checkpoint: str, write_raw: WriteRaw, data: bytes) -> None:
    warnings: list[str] = []
    claims = Claims(checkpoint, warn=warnings.append, in_subprocess=False)
    claims.write_outcome(1, {"a": 1})
    write_raw("outcome-2", data)
    assert claims.read_outcome(2) is None
    assert claims.read_latest_outcome() == (1, {"a": 1})
    assert len(warnings) == 2
    assert warnings[0].endswith("_holdfast/outcome-2 is ignored: it does not contain an outcome")


@pytest.mark.parametrize("data", [b"", b"\0" * 137], ids=["empty", "zeros"])
def test_incomplete_claim_uses_its_number_and_has_no_owner(claims: Claims, write_raw: WriteRaw, data: bytes) -> None:
    """Simulate a writer that was killed before its claim was complete: it has started no driver."""
    write_raw("claim-1", data)
    assert claims.read_owner() is None
    assert claims.list_attempts() == [1]
    with pytest.raises(AlreadyClaimed):
        claims.claim(claim(1))
    claims.claim(claim(2))
    assert claims.read_owner() == claim(2)


MALFORMED_CLAIMS = [
    b"{",
    b"garbage",
    b'{"schema":1,"job":"job-1"}',
    b"\xff" * 10,
    b'{"schema":1,"cluster":"c","job":"j","attempt":7,"node":"n","nonce":"x"}',
]


@pytest.mark.parametrize("data", MALFORMED_CLAIMS, ids=range(len(MALFORMED_CLAIMS)))
def test_checkpoint_with_only_malformed_claims_is_refused(checkpoint: str, write_raw: WriteRaw, data: bytes) -> None:
    warnings: list[str] = []
    claims = Claims(checkpoint, warn=warnings.append, in_subprocess=False)
    write_raw("claim-4", data)
    assert claims.read_owner() is None
    assert claims.list_attempts() == [4]
    with pytest.raises(ForeignCheckpoint, match=r"the owner of the checkpoint .* is unknown: none of the claims"):
        claims.claim(claim(5))
    assert claims.list_attempts() == [4]
    assert any("_holdfast/claim-4" in warning for warning in warnings)


def test_one_readable_claim_determines_the_owner(claims: Claims, write_raw: WriteRaw) -> None:
    claims.claim(claim(1))
    write_raw("claim-2", b"garbage")
    assert claims.read_owner() == claim(1)
    with pytest.raises(AlreadyClaimed):
        claims.claim(claim(2))
    with pytest.raises(ForeignCheckpoint):
        claims.claim(claim(3, job="job-2"))
    claims.claim(claim(3))
    assert claims.read_owner() == claim(3)


def test_claim_with_a_newer_schema_is_unavailable(claims: Claims, write_raw: WriteRaw) -> None:
    write_raw("claim-1", b'{"schema":99,"owner":{}}')
    with pytest.raises(Unavailable, match="later Holdfast"):
        claims.claim(claim(2))
    assert claims.list_attempts() == [1]


def test_files_with_other_names_are_not_claims(claims: Claims, write_raw: WriteRaw) -> None:
    for name in ("claim-0", "claim-007", "claim-x", "claim-1.bak", "claim--1", "claim-" + "9" * 30, "notes.txt"):
        write_raw(name, b"hello")
    assert claims.list_attempts() == []
    claims.claim(claim(1))
    assert claims.read_owner() == claim(1)


@pytest.mark.parametrize("attempt", [0, -1, True, 10**18])
def test_invalid_attempt_number_is_refused(claims: Claims, attempt: int) -> None:
    with pytest.raises(Refused, match="is not a valid attempt number"):
        claims.claim(claim(attempt))
    with pytest.raises(Refused):
        claims.write_outcome(attempt, {})
    assert claims.list_attempts() == []


def test_outcomes_since_an_attempt_come_with_the_newest_claim(claims: Claims, write_raw: WriteRaw) -> None:
    assert claims.read_outcomes_since(claim(1), 1) == (0, {})
    for attempt in (2, 3, 5):
        claims.claim(claim(attempt))
    for attempt in (1, 2, 3, 6, 8):
        claims.write_outcome(attempt, {"n": attempt})
    write_raw("outcome-4", b"no JSON")
    assert claims.read_outcomes_since(claim(7), 2) == (5, {2: {"n": 2}, 3: {"n": 3}, 6: {"n": 6}})
    assert claims.read_outcomes_since(claim(7), 7) == (0, {}), "nothing is read if there is no such outcome"


def test_outcomes_of_another_job_are_not_returned(claims: Claims) -> None:
    claims.claim(claim(1, job="job-2"))
    claims.write_outcome(1, {"n": 1})
    assert claims.read_outcomes_since(claim(2), 1) == (0, {})
    assert claims.read_outcomes_since(claim(2, job="job-2"), 1) == (1, {1: {"n": 1}})


def test_too_large_outcome_is_refused(claims: Claims) -> None:
    with pytest.raises(Refused, match="too large"):
        claims.write_outcome(1, {"reason": "x" * 300_000})


# The following tests run in a directory only: they need local files.


@pytest.mark.slow
def test_newest_fifty_claims_are_kept_and_files_of_spark_are_untouched(directory: Path) -> None:
    for name in ("offsets", "commits", "state"):
        (directory / name).mkdir()
    for file in ("metadata", "offsets/0", "commits/0", ".metadata.crc", "claim-1"):
        (directory / file).write_text("Spark's own")
    claims = Claims(str(directory))
    claims.write_outcome(1, {"n": 1})
    for attempt in range(2, 131):
        claims.claim(claim(attempt))
    assert claims.list_attempts() == [1, *range(81, 131)], "an outcome is kept until there are fifty newer ones"
    for attempt in range(2, 60):
        claims.write_outcome(attempt, {"n": attempt})
    claims.claim(claim(131))
    assert claims.read_latest_outcome() == (59, {"n": 59})
    kept = sorted(int(path.name.partition("-")[2]) for path in (directory / "_holdfast").glob("outcome-*"))
    assert kept == list(range(10, 60))
    assert (directory / "claim-1").read_text() == "Spark's own"
    assert sorted(path.name for path in directory.iterdir()) == [
        ".metadata.crc", "_holdfast", "claim-1", "commits", "metadata", "offsets", "state",
    ]  # fmt: skip  # one item per line is harder to read


def test_link_folder_or_pipe_in_place_of_a_claim_uses_its_number(directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b'{"schema":1,"cluster":"c1","job":"job-2","attempt":2,"node":"n","nonce":"x"}')
    claims = Claims(str(directory))
    claims.claim(claim(1))
    (directory / "_holdfast" / "claim-2").symlink_to(outside)
    (directory / "_holdfast" / "claim-3").mkdir()
    os.mkfifo(directory / "_holdfast" / "claim-4")
    (directory / "_holdfast" / "claim-5").symlink_to(tmp_path / "nowhere")
    assert claims.read_owner() == claim(1)
    with pytest.raises(AlreadyClaimed):
        claims.claim(claim(5))
    claims.claim(claim(6))
    assert not (tmp_path / "nowhere").exists()


def test_link_in_place_of_the_claims_folder_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (directory / "_holdfast").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="_holdfast must be a folder, not a link or a file"):
        Claims(str(directory)).claim(claim(1))
    assert list((tmp_path / "elsewhere").iterdir()) == []


CLAIM_ON_FULL_DISK = """
import sys
from pathlib import Path
from holdfast.errors import Unavailable
from holdfast.storage import CheckpointClaim, Claims
disk = Path(sys.argv[1])
claims = Claims(str(disk / "checkpoint"))
claims.write_outcome(1, {"n": 1})
import os
if os.stat(disk).st_dev == os.stat(disk.parent).st_dev:  # no separate disk: limit the file size instead
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
else:
    try:
        (disk / "filler").write_bytes(b"x" * 2_000_000)
    except OSError:
        pass
for call in (lambda: claims.claim(CheckpointClaim("c", "j", 2, "n", "x")), lambda: claims.write_outcome(1, {"n": 2})):
    try:
        print("done", call())
    except Unavailable as error:
        print(error)
print(sorted(path.name for path in (disk / "checkpoint" / "_holdfast").iterdir()), claims.read_outcome(1))
"""


def test_full_disk_prevents_claims_and_keeps_an_earlier_outcome(tmp_path: Path) -> None:
    claim_error, outcome_error, remaining = run_on_small_disk(CLAIM_ON_FULL_DISK, tmp_path / "disk").splitlines()
    assert claim_error.startswith("cannot create ")
    assert outcome_error.startswith("cannot write to ")
    assert remaining == "['outcome-1'] {'n': 1}"


CLAIM_WITHOUT_PERMISSION = """
import sys
from holdfast.errors import Unavailable
from holdfast.storage import CheckpointClaim, Claims
claims = Claims(sys.argv[1])
for call in (lambda: claims.claim(CheckpointClaim("c1", "job-1", 2, "n", "x")), claims.read_owner, claims.read_latest_outcome):
    try:
        print("done", call())
    except Unavailable as error:
        print(error)
"""


def test_checkpoint_without_read_permission_is_unavailable(directory: Path) -> None:
    Claims(str(directory)).claim(claim(1))
    (directory / "_holdfast").chmod(0)
    try:
        errors = run_without_root_powers(CLAIM_WITHOUT_PERMISSION, directory).splitlines()
    finally:
        (directory / "_holdfast").chmod(0o700)
    assert len(errors) == 3
    assert all(error.endswith("Permission denied") for error in errors)
