"""Claims from several processes at the same moment: never two winners."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.storage import Claim, Claims
from tests.harness.processes import start
from tests.harness.s3 import Bucket

TRIES = 1600

# Meets the other one before each try: both write a byte to the other and wait for its.
RACE = """
import os, sys
from holdfast.errors import HoldfastError
from holdfast.storage import Claim, Claims
me, job, attempt, tries, place, hear, tell = sys.argv[1:]
for number in range(int(tries)):
    claims = Claims(place.replace("NUMBER", str(number)), apart=False)
    os.write(int(tell), b".")
    os.read(int(hear), 1)
    try:
        claims.claim(Claim("c", job, int(attempt), "n", me))
        print("won", flush=True)
    except HoldfastError as error:
        print(type(error).__name__, flush=True)
os._exit(0)
"""


def race(place: str, tries: int, *racers: tuple[str, int]) -> list[tuple[str, str]]:
    """For each try, what the two got."""
    ends = [os.pipe(), os.pipe()]
    try:
        processes = []
        for number, (job, attempt) in enumerate(racers):
            hear, tell = ends[number][0], ends[1 - number][1]
            arguments = [f"racer-{number}", job, attempt, tries, place, hear, tell]
            processes.append(start(RACE, *arguments, pass_fds=(hear, tell)))
    finally:
        for end in ends:
            for descriptor in end:
                os.close(descriptor)
    printed = [process.communicate(timeout=170)[0].split() for process in processes]
    assert [len(lines) for lines in printed] == [tries, tries]
    return list(zip(*printed, strict=True))


@pytest.mark.slow
def test_of_two_processes_that_claim_the_same_attempt_exactly_one_wins(tmp_path: Path, report: Callable[[str], None]) -> None:
    results = race(f"{tmp_path}/NUMBER", TRIES, ("job", 1), ("job", 1))
    for number, result in enumerate(results):
        assert sorted(result) == ["Claimed", "won"], f"try {number}"
        owner = Claims(f"{tmp_path}/{number}").owner()
        assert owner is not None
        assert owner.nonce == f"racer-{result.index('won')}"
    first = sum(result[0] == "won" for result in results)
    report(f"{TRIES} races for a claim: {first} won by one process, {TRIES - first} by the other, none by both or neither")


@pytest.mark.slow
def test_of_two_jobs_that_claim_a_checkpoint_at_the_same_moment_at_most_one_wins(
    tmp_path: Path, report: Callable[[str], None]
) -> None:
    results = race(f"{tmp_path}/NUMBER", 600, ("job-a", 1), ("job-b", 5))
    assert ("won", "won") not in results
    for number, result in enumerate(results):
        owner = Claims(f"{tmp_path}/{number}").owner()
        assert (owner is None) == ("won" not in result)
    report(f"600 races of two jobs for a checkpoint: {sum('won' not in result for result in results)} without a winner")


@pytest.mark.slow
def test_of_two_attempts_at_the_same_moment_the_later_one_always_wins(tmp_path: Path) -> None:
    results = race(f"{tmp_path}/NUMBER", 300, ("job", 1), ("job", 2))
    for number, result in enumerate(results):
        assert result[1] == "won"
        owner = Claims(f"{tmp_path}/{number}").owner()
        assert owner is not None
        assert owner.attempt == 2


@pytest.mark.slow
def test_in_an_object_store_never_both_win(bucket: Bucket, report: Callable[[str], None]) -> None:
    """Without a conditional write, both may lose: safe, and the next attempt goes on."""
    location, _, query = bucket.location.partition("?")
    results = race(f"{location}/NUMBER?{query}", 60, ("job", 1), ("job", 1))
    assert ("won", "won") not in results
    for number, result in enumerate(results):
        owner = Claims(f"{location}/{number}?{query}", apart=False).owner() if number < 5 else None
        if owner is not None:
            assert result[int(owner.nonce.removeprefix("racer-"))] == "won"
    report(f"60 races for a claim in S3: {sum('won' not in result for result in results)} without a winner")


CLAIM_FOR_EVER = """
import sys
from holdfast.storage import Claim, Claims
print("ready", flush=True)
number = int(sys.argv[2])
while True:
    Claims(sys.argv[1]).claim(Claim("c", "job", number, "n", str(number)))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.slow
def test_a_claimant_that_is_killed_at_any_moment_does_not_block_the_next_attempt(tmp_path: Path) -> None:
    checkpoint, attempt = str(tmp_path / "checkpoint"), 1
    for pause_s in [0.0005 * number for number in range(40)]:
        claiming = start(CLAIM_FOR_EVER, checkpoint, attempt)
        assert claiming.stdout is not None
        claiming.stdout.readline()
        try:
            claiming.wait(pause_s)
        except subprocess.TimeoutExpired:
            claiming.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in claiming.communicate()[0].split()]
        claims = Claims(checkpoint)
        assert set(acknowledged[-20:]) <= set(claims.attempts())
        attempt = max([0, *claims.attempts()]) + 1
        try:
            claims.claim(Claim("c", "job", attempt, "n", "after"))
        except HoldfastError as error:
            pytest.fail(f"after {acknowledged}: {error}")
        attempt += 1
