"""Concurrent claims from several processes: there are never two winners."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.storage import CheckpointClaim, Claims
from tests.harness.processes import start_python
from tests.harness.s3 import Bucket

ROUNDS = 1600

# The two processes synchronise before each round: each writes a byte to the other and waits for the other's byte.
RACE = """
import os, sys
from holdfast.errors import HoldfastError
from holdfast.storage import CheckpointClaim, Claims
me, job, attempt, rounds, checkpoint_pattern, read_fd, write_fd = sys.argv[1:]
for number in range(int(rounds)):
    claims = Claims(checkpoint_pattern.replace("NUMBER", str(number)), in_subprocess=False)
    os.write(int(write_fd), b".")
    os.read(int(read_fd), 1)
    try:
        claims.claim(CheckpointClaim("c", job, int(attempt), "n", me))
        print("won", flush=True)
    except HoldfastError as error:
        print(type(error).__name__, flush=True)
os._exit(0)
"""


def race(checkpoint_pattern: str, rounds: int, *racers: tuple[str, int]) -> list[tuple[str, str]]:
    """Let two processes claim at the same time in each round. Return the pair of results of each round."""
    ends = [os.pipe(), os.pipe()]
    try:
        processes = []
        for number, (job, attempt) in enumerate(racers):
            read_fd, write_fd = ends[number][0], ends[1 - number][1]
            arguments = [f"racer-{number}", job, attempt, rounds, checkpoint_pattern, read_fd, write_fd]
            processes.append(start_python(RACE, *arguments, pass_fds=(read_fd, write_fd)))
    finally:
        for end in ends:
            for descriptor in end:
                os.close(descriptor)
    printed = [process.communicate(timeout=170)[0].split() for process in processes]
    assert [len(lines) for lines in printed] == [rounds, rounds]
    return list(zip(*printed, strict=True))


@pytest.mark.slow
def test_exactly_one_of_two_concurrent_claims_of_an_attempt_succeeds(tmp_path: Path, report: Callable[[str], None]) -> None:
    results = race(f"{tmp_path}/NUMBER", ROUNDS, ("job", 1), ("job", 1))
    for number, result in enumerate(results):
        assert sorted(result) == ["AlreadyClaimed", "won"], f"round {number}"
        owner = Claims(f"{tmp_path}/{number}").read_owner()
        assert owner is not None
        assert owner.nonce == f"racer-{result.index('won')}"
    first = sum(result[0] == "won" for result in results)
    report(f"{ROUNDS} races for a claim: {first} won by one process, {ROUNDS - first} by the other, none by both or neither")


@pytest.mark.slow
def test_at_most_one_of_two_jobs_claims_a_checkpoint(tmp_path: Path, report: Callable[[str], None]) -> None:
    results = race(f"{tmp_path}/NUMBER", 600, ("job-a", 1), ("job-b", 5))
    assert ("won", "won") not in results
    for number, result in enumerate(results):
        owner = Claims(f"{tmp_path}/{number}").read_owner()
        assert (owner is None) == ("won" not in result)
    report(f"600 races of two jobs for a checkpoint: {sum('won' not in result for result in results)} without a winner")


@pytest.mark.slow
def test_later_of_two_concurrent_attempts_always_claims_the_checkpoint(tmp_path: Path) -> None:
    results = race(f"{tmp_path}/NUMBER", 300, ("job", 1), ("job", 2))
    for number, result in enumerate(results):
        assert result[1] == "won"
        owner = Claims(f"{tmp_path}/{number}").read_owner()
        assert owner is not None
        assert owner.attempt == 2


@pytest.mark.slow
def test_at_most_one_concurrent_claim_succeeds_in_an_object_store(bucket: Bucket, report: Callable[[str], None]) -> None:
    """Allow both to fail: without a conditional write that is safe, and the next attempt claims the checkpoint."""
    location, _, query = bucket.location.partition("?")
    results = race(f"{location}/NUMBER?{query}", 60, ("job", 1), ("job", 1))
    assert ("won", "won") not in results
    for number, result in enumerate(results):
        owner = Claims(f"{location}/{number}?{query}", in_subprocess=False).read_owner() if number < 5 else None
        if owner is not None:
            assert result[int(owner.nonce.removeprefix("racer-"))] == "won"
    report(f"60 races for a claim in S3: {sum('won' not in result for result in results)} without a winner")


CLAIM_REPEATEDLY = """
import sys
from holdfast.storage import CheckpointClaim, Claims
print("ready", flush=True)
number = int(sys.argv[2])
while True:
    Claims(sys.argv[1]).claim(CheckpointClaim("c", "job", number, "n", str(number)))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.slow
def test_killed_claimant_does_not_block_the_next_attempt(tmp_path: Path) -> None:
    checkpoint, attempt = str(tmp_path / "checkpoint"), 1
    for pause_s in [0.0005 * number for number in range(40)]:
        claimant = start_python(CLAIM_REPEATEDLY, checkpoint, attempt)
        assert claimant.stdout is not None
        claimant.stdout.readline()
        try:
            claimant.wait(pause_s)
        except subprocess.TimeoutExpired:
            claimant.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in claimant.communicate()[0].split()]
        claims = Claims(checkpoint)
        assert set(acknowledged[-20:]) <= set(claims.list_attempts())
        attempt = max([0, *claims.list_attempts()]) + 1
        try:
            claims.claim(CheckpointClaim("c", "job", attempt, "n", "after"))
        except HoldfastError as error:
            pytest.fail(f"after {acknowledged}: {error}")
        attempt += 1
