"""Claims of checkpoint locations that several jobs use, one after the other, in a directory and in a real S3 server."""

import threading
from pathlib import Path

import pytest

from holdfast.errors import Conflict
from holdfast.storage import AlreadyClaimed, CheckpointClaim, Claims, ForeignCheckpoint, LocationClaims, LocationOwner
from holdfast.storage.location import Location, enclosing_folders, parse_location


def claim(attempt: int, *, job: str = "job-1", cluster: str = "c1", nonce: str = "") -> CheckpointClaim:
    return CheckpointClaim(cluster=cluster, job=job, attempt=attempt, node="n1", nonce=nonce or f"{job}-{attempt}")


@pytest.fixture
def place(location: str) -> str:
    return str(parse_location(location).join("own", "place"))


@pytest.fixture
def claims(place: str) -> LocationClaims:
    return LocationClaims(place, warn=print, in_subprocess=False)


def owner(claims: LocationClaims) -> LocationOwner:
    owner = claims.read_owner()
    assert owner is not None
    return owner


def test_first_claim_makes_the_job_the_owner(claims: LocationClaims, place: str) -> None:
    assert claims.read_owner() is None
    assert claims.claim(claim(3)) is None
    assert owner(claims).claim == claim(3)
    assert owner(claims).file.endswith("/own/place/_holdfast/claim-3")
    assert claims.claim(claim(3)) is None, "a repeated claim changes nothing"
    assert claims.claim(claim(5)) is None, "the next attempt of the same job"
    assert Claims(place, in_subprocess=False).read_owner() == claim(5), "earlier versions can read the claims of a single owner"


def test_location_of_another_job_is_reported_and_unchanged(claims: LocationClaims) -> None:
    claims.claim(claim(4))
    for other in (claim(9, job="job-2"), claim(9, cluster="c2")):
        blocking = claims.claim(other)
        assert blocking is not None and blocking.claim == claim(4) and not blocking.ended
        assert owner(claims).claim == claim(4)


def test_location_of_an_ended_job_is_taken_over_whatever_the_attempt_numbers_are(claims: LocationClaims) -> None:
    claims.claim(claim(4))
    assert claims.claim(claim(1, job="job-2"), ended_owner=claim(4)) is None
    assert owner(claims).claim == claim(1, job="job-2")
    assert claims.claim(claim(2, job="job-2")) is None
    blocking = claims.claim(claim(5))
    assert blocking is not None and blocking.claim == claim(2, job="job-2"), "the former owner does not get it back"
    blocking = claims.claim(claim(1, job="job-3"), ended_owner=claim(4))
    assert blocking is not None and blocking.claim == claim(2, job="job-2"), "the end of the former owner permits nothing more"


def test_outcome_of_the_newest_claim_is_reported(claims: LocationClaims) -> None:
    claims.claim(claim(4))
    claims.claim(claim(1, job="job-2"), ended_owner=claim(4))
    claims.write_outcome(claim(4), {"ending": "failed"})
    assert not owner(claims).ended
    claims.write_outcome(claim(1, job="job-2", nonce="never claimed"), {"ending": "failed"})
    assert not owner(claims).ended
    claims.write_outcome(claim(1, job="job-2"), {"ending": "failed"})
    assert owner(claims).ended
    claims.claim(claim(2, job="job-2"))
    assert not owner(claims).ended


def test_earlier_attempt_and_second_run_of_an_attempt_are_refused(claims: LocationClaims) -> None:
    claims.claim(claim(4))
    for late in (claim(3), claim(4, nonce="another")):
        with pytest.raises(Conflict, match="attempt 4 has already claimed it"):
            claims.claim(late)


def test_location_with_only_malformed_claims_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "place" / "_holdfast"
    folder.mkdir(parents=True)
    (folder / "claim-2").write_bytes(b"{")
    claims = LocationClaims(str(tmp_path / "place"), warn=print)
    with pytest.raises(ForeignCheckpoint, match="is unknown"):
        claims.claim(claim(1))
    (folder / "claim-2").write_bytes(b"")
    assert claims.claim(claim(1)) is None, "an incomplete claim has no owner"
    assert sorted(path.name for path in folder.iterdir()) == ["claim-2", "claim-3"]


@pytest.mark.parametrize("former", [None, claim(6, job="ended")])
def test_at_most_one_of_several_concurrent_jobs_gets_the_location(tmp_path: Path, former: CheckpointClaim | None) -> None:
    """Invariant 2: at most one driver uses a checkpoint."""
    for round in range(20):
        place = str(tmp_path / str(round))
        if former is not None:
            LocationClaims(place, warn=print).claim(former)
        barrier = threading.Barrier(4)
        granted: list[str] = []

        def compete(job: str, attempt: int, place: str = place, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                if LocationClaims(place, warn=print).claim(claim(attempt, job=job), ended_owner=former) is None:
                    granted.append(job)  # noqa: B023 -- joined before the next round
            except AlreadyClaimed:
                pass

        threads = [threading.Thread(target=compete, args=(f"job-{each}", each + 1)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) <= 1
        if granted:
            assert owner(LocationClaims(place, warn=print)).claim.job == granted[0]


def test_folders_that_can_be_a_job_root() -> None:
    def paths(text: str) -> list[str]:
        return [str(folder) for folder in enclosing_folders(parse_location(text))]

    assert paths("/storage/checkpoints/j1/query-1") == ["/storage/checkpoints/j1"]
    assert paths("/storage/checkpoints/j1/a/b") == ["/storage/checkpoints/j1/a", "/storage/checkpoints/j1"]
    assert paths("/own/place") == ["/own"]
    assert paths("/own") == []
    assert paths("s3://bucket/checkpoints/j1/q?region=x") == ["s3://bucket/checkpoints/j1?region=x"]
    assert parse_location("s3://bucket/q").parent is None
    assert Location("", "", "/own/place").name == "place"
