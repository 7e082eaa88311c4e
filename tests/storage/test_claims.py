"""Claims: whose checkpoint it is. The same cases in a directory and in a real S3 server."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.storage import Claim, Claimed, Claims, ForeignCheckpoint, checkpoint_of, in_storage
from tests.harness.processes import run_as_anybody, run_on_small_disk
from tests.harness.s3 import Bucket

WriteRaw = Callable[[str, bytes], None]


def claim(attempt: int, *, job: str = "job-1", cluster: str = "c1", nonce: str = "") -> Claim:
    return Claim(cluster=cluster, job=job, attempt=attempt, node="n1", nonce=nonce or f"{job}-{attempt}")


@pytest.fixture
def checkpoint(location: str) -> str:
    return in_storage(checkpoint_of(location, "job-1"), location)


@pytest.fixture
def claims(checkpoint: str) -> Claims:
    return Claims(checkpoint, apart=False)


@pytest.fixture
def write_raw(checkpoint: str, request: pytest.FixtureRequest) -> WriteRaw:
    """Puts bytes under a name in `_holdfast`, past everything."""
    if checkpoint.startswith("s3:"):
        bucket: Bucket = request.getfixturevalue("bucket")
        return lambda name, data: bucket.put(f"checkpoints/job-1/_holdfast/{name}", data)

    def write(name: str, data: bytes) -> None:
        folder = Path(checkpoint) / "_holdfast"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return write


def test_a_new_checkpoint_belongs_to_nobody(claims: Claims) -> None:
    assert claims.owner() is None
    assert claims.attempts() == []
    assert claims.latest() is None
    assert claims.outcome(1) is None


def test_whoever_claims_a_checkpoint_owns_it(claims: Claims) -> None:
    claims.claim(claim(1))
    assert claims.owner() == claim(1)
    claims.claim(claim(3))
    assert claims.owner() == claim(3)
    assert claims.attempts() == [1, 3]


def test_a_number_is_never_given_out_twice(claims: Claims) -> None:
    claims.claim(claim(2))
    with pytest.raises(Claimed, match=r"attempt 2 comes too late for .*: attempt 2 has claimed it"):
        claims.claim(claim(2, nonce="another"))
    with pytest.raises(Conflict):
        claims.claim(claim(1))
    assert claims.owner() == claim(2)
    assert claims.attempts() == [2]


def test_a_claim_whose_reply_was_lost_can_be_made_again(claims: Claims) -> None:
    claims.claim(claim(1))
    claims.claim(claim(1))
    claims.claim(claim(2))
    with pytest.raises(Claimed):
        claims.claim(claim(1))


@pytest.mark.parametrize("other", [claim(2, job="job-2"), claim(2, cluster="c2")], ids=["another job", "another cluster"])
def test_the_checkpoint_of_another_is_refused_and_left_as_it_was(claims: Claims, other: Claim) -> None:
    claims.claim(claim(1))
    with pytest.raises(ForeignCheckpoint, match=r"belongs to the job job-1.*, whose attempt 1 used it") as refused:
        claims.claim(other)
    assert ("of the cluster 'c1'" in str(refused.value)) == (other.cluster == "c2")
    assert claims.attempts() == [1]


def test_an_outcome_is_found_by_the_next_attempt(claims: Claims) -> None:
    claims.claim(claim(1))
    claims.leave_outcome(1, {"ending": "finished", "reason": "Ende gut, alles gut ✓"})
    assert claims.outcome(1) == {"ending": "finished", "reason": "Ende gut, alles gut ✓"}
    claims.claim(claim(2))
    assert claims.outcome(2) is None
    assert claims.latest() == (1, {"ending": "finished", "reason": "Ende gut, alles gut ✓"})
    claims.leave_outcome(2, json.dumps({"ending": "failed"}).encode())
    assert claims.latest() == (2, {"ending": "failed"})


def test_an_outcome_may_be_replaced_and_is_left_before_any_claim(claims: Claims) -> None:
    claims.leave_outcome(1, {"a": 1})
    claims.leave_outcome(1, {"a": 2})
    assert claims.outcome(1) == {"a": 2}
    with pytest.raises(Claimed):  # it ended, so it was used
        claims.claim(claim(1))


GARBAGE = [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000, b"x" * 400_000]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_an_outcome_that_is_garbage_counts_as_none_and_is_noted(checkpoint: str, write_raw: WriteRaw, data: bytes) -> None:
    notes: list[str] = []
    claims = Claims(checkpoint, note=notes.append, apart=False)
    claims.leave_outcome(1, {"a": 1})
    write_raw("outcome-2", data)
    assert claims.outcome(2) is None
    assert claims.latest() == (1, {"a": 1})
    assert len(notes) == 2
    assert notes[0].endswith("_holdfast/outcome-2 does not hold an outcome, and counts as none")


@pytest.mark.parametrize("data", [b"", b"\0" * 137], ids=["empty", "zeros"])
def test_a_torn_claim_uses_its_number_and_names_nobody(claims: Claims, write_raw: WriteRaw, data: bytes) -> None:
    """Whoever created it was killed before the claim held, and has started nothing."""
    write_raw("claim-1", data)
    assert claims.owner() is None
    assert claims.attempts() == [1]
    with pytest.raises(Claimed):
        claims.claim(claim(1))
    claims.claim(claim(2))
    assert claims.owner() == claim(2)


UNREADABLE = [
    b"{",
    b"garbage",
    b'{"schema":1,"job":"job-1"}',
    b"\xff" * 10,
    b'{"schema":1,"cluster":"c","job":"j","attempt":7,"node":"n","nonce":"x"}',
]


@pytest.mark.parametrize("data", UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_checkpoint_whose_claims_are_all_garbage_waits_for_a_person(
    checkpoint: str, write_raw: WriteRaw, data: bytes
) -> None:
    notes: list[str] = []
    claims = Claims(checkpoint, note=notes.append, apart=False)
    write_raw("claim-4", data)
    assert claims.owner() is None
    assert claims.attempts() == [4]
    with pytest.raises(ForeignCheckpoint, match=r"nobody can tell whose checkpoint .* is: none of the claims"):
        claims.claim(claim(5))
    assert claims.attempts() == [4]
    assert any("_holdfast/claim-4" in note for note in notes)


def test_one_claim_that_can_be_read_says_whose_it_is(claims: Claims, write_raw: WriteRaw) -> None:
    claims.claim(claim(1))
    write_raw("claim-2", b"garbage")
    assert claims.owner() == claim(1)
    with pytest.raises(Claimed):
        claims.claim(claim(2))
    with pytest.raises(ForeignCheckpoint):
        claims.claim(claim(3, job="job-2"))
    claims.claim(claim(3))
    assert claims.owner() == claim(3)


def test_a_claim_of_a_later_version_is_for_a_node_that_understands_it(claims: Claims, write_raw: WriteRaw) -> None:
    write_raw("claim-1", b'{"schema":99,"owner":{}}')
    with pytest.raises(Unavailable, match="later Holdfast"):
        claims.claim(claim(2))
    assert claims.attempts() == [1]


def test_strangers_in_the_folder_are_not_claims(claims: Claims, write_raw: WriteRaw) -> None:
    for name in ("claim-0", "claim-007", "claim-x", "claim-1.bak", "claim--1", "claim-" + "9" * 30, "notes.txt"):
        write_raw(name, b"hello")
    assert claims.attempts() == []
    claims.claim(claim(1))
    assert claims.owner() == claim(1)


@pytest.mark.parametrize("attempt", [0, -1, True, 10**18])
def test_what_is_no_number_of_an_attempt_is_refused(claims: Claims, attempt: int) -> None:
    with pytest.raises(Refused, match="is not the number of an attempt"):
        claims.claim(claim(attempt))
    with pytest.raises(Refused):
        claims.leave_outcome(attempt, {})
    assert claims.attempts() == []


def test_an_outcome_that_is_too_large_is_refused(claims: Claims) -> None:
    with pytest.raises(Refused, match="too large"):
        claims.leave_outcome(1, {"reason": "x" * 300_000})


# In a directory alone: what is about files.


def test_only_the_newest_fifty_are_kept_and_nothing_of_sparks_is_touched(directory: Path) -> None:
    for name in ("offsets", "commits", "state"):
        (directory / name).mkdir()
    for file in ("metadata", "offsets/0", "commits/0", ".metadata.crc", "claim-1"):
        (directory / file).write_text("Spark's own")
    claims = Claims(str(directory))
    claims.leave_outcome(1, {"n": 1})
    for attempt in range(2, 131):
        claims.claim(claim(attempt))
    assert claims.attempts() == [1, *range(81, 131)], "an outcome is kept until fifty newer ones are there"
    for attempt in range(2, 60):
        claims.leave_outcome(attempt, {"n": attempt})
    claims.claim(claim(131))
    assert claims.latest() == (59, {"n": 59})
    kept = sorted(int(path.name.partition("-")[2]) for path in (directory / "_holdfast").glob("outcome-*"))
    assert kept == list(range(10, 60))
    assert (directory / "claim-1").read_text() == "Spark's own"
    assert sorted(path.name for path in directory.iterdir()) == [
        ".metadata.crc", "_holdfast", "claim-1", "commits", "metadata", "offsets", "state",
    ]  # fmt: skip


def test_a_claim_that_is_a_link_a_folder_or_a_pipe_uses_its_number(directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b'{"schema":1,"cluster":"c1","job":"job-2","attempt":2,"node":"n","nonce":"x"}')
    claims = Claims(str(directory))
    claims.claim(claim(1))
    (directory / "_holdfast" / "claim-2").symlink_to(outside)
    (directory / "_holdfast" / "claim-3").mkdir()
    os.mkfifo(directory / "_holdfast" / "claim-4")
    (directory / "_holdfast" / "claim-5").symlink_to(tmp_path / "nowhere")
    assert claims.owner() == claim(1)
    with pytest.raises(Claimed):
        claims.claim(claim(5))
    claims.claim(claim(6))
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_of_claims_that_is_a_link_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (directory / "_holdfast").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="_holdfast must be a folder, and neither a link nor a file"):
        Claims(str(directory)).claim(claim(1))
    assert list((tmp_path / "elsewhere").iterdir()) == []


FULL = """
import sys
from pathlib import Path
from holdfast.errors import Unavailable
from holdfast.storage import Claim, Claims
disk = Path(sys.argv[1])
claims = Claims(str(disk / "checkpoint"))
claims.leave_outcome(1, {"n": 1})
import os
if os.stat(disk).st_dev == os.stat(disk.parent).st_dev:  # no disk of its own: a limit takes its place
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
else:
    try:
        (disk / "filler").write_bytes(b"x" * 2_000_000)
    except OSError:
        pass
for call in (lambda: claims.claim(Claim("c", "j", 2, "n", "x")), lambda: claims.leave_outcome(1, {"n": 2})):
    try:
        print("done", call())
    except Unavailable as error:
        print(error)
print(sorted(path.name for path in (disk / "checkpoint" / "_holdfast").iterdir()), claims.outcome(1))
"""


def test_on_a_full_disk_nothing_is_claimed_and_an_earlier_outcome_stays(tmp_path: Path) -> None:
    claimed, left, remains = run_on_small_disk(FULL, tmp_path / "disk").splitlines()
    assert claimed.startswith("cannot create ")
    assert left.startswith("cannot write to ")
    assert remains == "['outcome-1'] {'n': 1}"


DENIED = """
import sys
from holdfast.errors import Unavailable
from holdfast.storage import Claim, Claims
claims = Claims(sys.argv[1])
for call in (lambda: claims.claim(Claim("c1", "job-1", 2, "n", "x")), claims.owner, claims.latest):
    try:
        print("done", call())
    except Unavailable as error:
        print(error)
"""


def test_a_checkpoint_that_may_not_be_read_is_unavailable_and_not_taken_for_a_new_one(directory: Path) -> None:
    Claims(str(directory)).claim(claim(1))
    (directory / "_holdfast").chmod(0)
    try:
        said = run_as_anybody(DENIED, directory).splitlines()
    finally:
        (directory / "_holdfast").chmod(0o700)
    assert len(said) == 3
    assert all(sentence.endswith("Permission denied") for sentence in said)
