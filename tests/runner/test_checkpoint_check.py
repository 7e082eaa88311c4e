"""Before an attempt: what is run from, what is set aside first, and what is not run from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import log
from holdfast.checkpoint import Known, KnownQuery
from holdfast.errors import Conflict
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Progress, Report
from holdfast.runner.checkpoint_check import Damaged, Verification
from holdfast.storage import Claim, Claims, ForeignCheckpoint
from tests.harness.checkpoint_trees import LONG_KEY, checkpoint, lay_out, operator_state, sink

CLAIM = Claim(cluster="c", job="j1", attempt=2, node="n1", nonce="x")
NOT_KNOWN = Report(Attempt(1), NodeId("n1"), 1000.0)


def reached(batch: int) -> Report:
    return replace(NOT_KNOWN, progress=Progress(batch_id=batch))


class Place:
    """A storage in a directory, with the checkpoint of one job whose query writes files."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkpoints" / "j1"
        self.query = self.root / "query-1"
        self.output = directory / "out put"
        self.claims = Claims(str(self.root))
        self.known = KnownQuery(str(self.query), "", "parquet", str(self.output), batch_id=2)
        self._storage = str(directory)

    def verify(self, before: Report | None = None, *, claim: Claim = CLAIM) -> str:
        self.claims.claim(claim)
        return Verification(str(self.root), self._storage, self.claims, claim, log.configure(component="test")).verify(before)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    lay_out(checkpoint(5), place.query)
    lay_out(sink(4), place.output / "_spark_metadata")
    place.claims.leave_queries(Known((place.known,)))
    return place


def test_a_job_that_has_never_run_is_fine(tmp_path: Path) -> None:
    assert Place(tmp_path).verify() == ""
    assert Place(tmp_path).verify(NOT_KNOWN, claim=replace(CLAIM, attempt=3)) == ""


def test_an_attempt_that_ended_in_its_first_batch_leaves_a_checkpoint_to_run_from(tmp_path: Path) -> None:
    place = Place(tmp_path)
    state = operator_state(0, "stateStoreSave", LONG_KEY, shuffle_partitions=2, partitions=0, version=0)
    lay_out({**checkpoint(0), **state}, place.query, with_checksums=True)
    place.claims.leave_queries(Known((replace(place.known, batch_id=None),)))
    assert place.verify(NOT_KNOWN) == ""
    place.claims.leave_queries(Known((place.known,)))
    with pytest.raises(Damaged, match="it has no commit, and batch 2 had been committed"):
        place.verify(NOT_KNOWN, claim=replace(CLAIM, attempt=3))


def test_a_checkpoint_that_is_whole_is_run_from_and_remembered(place: Place) -> None:
    assert place.verify(reached(4)) == ""
    known = place.claims.queries()
    assert known is not None and known.queries == (replace(place.known, batch_id=4),)


def test_a_torn_file_of_offsets_is_set_aside_with_a_note(place: Place) -> None:
    (place.query / "offsets" / "5").write_bytes(b"v1\n{")
    note = place.verify(reached(4))
    assert note == (
        f"offsets/5 of {place.query} was torn and is now _holdfast/aside/query-1/offsets-5-2; "
        "nothing of that batch took effect, and it goes on after batch 4"
    )
    assert (place.root / "_holdfast" / "aside" / "query-1" / "offsets-5-2").read_bytes() == b"v1\n{"
    assert not (place.query / "offsets" / "5").exists()
    assert place.verify(reached(4), claim=replace(CLAIM, attempt=3)) == ""


def test_a_torn_file_of_offsets_is_left_alone_if_its_batch_may_have_taken_effect(place: Place) -> None:
    (place.query / "offsets" / "5").write_bytes(b"")
    lay_out(sink(5), place.output / "_spark_metadata")
    with pytest.raises(Damaged) as refused:
        place.verify(reached(4))
    assert str(refused.value) == (
        f"its checkpoint {place.query} cannot be trusted: offsets/5 is empty, and its sink has batch 5 already; "
        "the last good batch is 4. Mend it or put a copy back and say 'holdfast resume j1', or 'holdfast cancel j1'"
    )
    assert (place.query / "offsets" / "5").exists()


def _root_gone(place: Place) -> None:
    place.root.rename(place.root.with_name("elsewhere"))


def _query_gone(place: Place) -> None:
    place.query.rename(place.root.with_name("elsewhere"))


def _content_gone(place: Place) -> None:
    _query_gone(place)
    place.query.mkdir()


@pytest.mark.parametrize("vanish", [_root_gone, _query_gone, _content_gone])
def test_a_checkpoint_that_vanished_is_never_a_start_from_scratch(place: Place, vanish: Callable[[Place], None]) -> None:
    vanish(place)
    with pytest.raises(Damaged, match=r"there is none any more, and batch [24] had been committed"):
        place.verify(reached(4))
    with pytest.raises(Damaged, match="it would start from scratch"):
        place.verify(reached(4), claim=replace(CLAIM, attempt=3))


def test_a_query_without_a_lasting_checkpoint_may_start_over(place: Place) -> None:
    _root_gone(place)
    place.claims.leave_queries(Known((KnownQuery("", format="memory"),)))
    assert place.verify(reached(4)) == ""


def test_what_was_reported_is_not_taken_for_a_batch_of_another_query(place: Place) -> None:
    place.claims.leave_queries(Known((KnownQuery("", format="memory"), place.known)))
    assert place.verify(reached(9)) == ""


def test_an_older_copy_is_not_run_from(place: Place) -> None:
    for batch in (3, 4):
        (place.query / "commits" / str(batch)).unlink()
    for batch in (4, 5):
        (place.query / "offsets" / str(batch)).unlink()
    # The copy is as old as what it says of itself; the report is not.
    with pytest.raises(Damaged, match="it has commits/2 as its newest commit, and batch 4 had been committed"):
        place.verify(reached(4))


def test_a_checkpoint_elsewhere_is_verified_and_claimed_too(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "own" / "place"
    lay_out(checkpoint(3), elsewhere)
    place.claims.leave_queries(Known((place.known, KnownQuery(str(elsewhere), format="kafka"))))
    assert place.verify(reached(4)) == ""
    assert Claims(str(elsewhere)).owner() == CLAIM
    with pytest.raises(ForeignCheckpoint, match="belongs to the job j2"):
        other = Claims(str(tmp_path / "again"))
        lay_out(checkpoint(3), tmp_path / "again")
        other.claim(replace(CLAIM, job="j2", attempt=1))
        place.claims.leave_queries(Known((KnownQuery(str(tmp_path / "again")),)))
        place.verify(reached(4), claim=replace(CLAIM, attempt=3))
    (elsewhere / "commits" / "2").write_bytes(b"v1")
    place.claims.leave_queries(Known((place.known, KnownQuery(str(elsewhere)))))
    with pytest.raises(Damaged, match="own/place cannot be trusted: commits/2 ends after its version"):
        place.verify(reached(4), claim=replace(CLAIM, attempt=4))


@pytest.mark.parametrize("location", ["relative", "ftp://x/y", "s3://no-such-bucket?", "\x00"])
def test_what_cannot_be_reached_is_not_verified_and_stops_nobody(place: Place, location: str) -> None:
    known = KnownQuery(location, format="parquet", path=location, batch_id=7)
    place.claims.leave_queries(Known((place.known, known)))
    assert place.verify(reached(4)) == ""


def test_an_attempt_that_comes_too_late_is_refused(place: Place) -> None:
    place.verify(claim=replace(CLAIM, attempt=9))
    with pytest.raises(Conflict):
        place.verify()
