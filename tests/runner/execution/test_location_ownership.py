"""Ownership of checkpoint locations outside of a job's root, and the answers to a driver that asks for them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import log
from holdfast.checkpoint import KnownQueries
from holdfast.driver_protocol.control_files import (
    CLAIM_ANSWERS_FILE,
    CLAIM_REQUESTS_FILE,
    read_control_file,
    write_control_file,
)
from holdfast.driver_protocol.location_claim import (
    ClaimAnswer,
    ClaimRequest,
    claim_requests_to_json,
    parse_claim_answers,
)
from holdfast.errors import Unavailable
from holdfast.model.phase import Phase
from holdfast.runner.execution.claim_answers import RETRY_S_MAX, ClaimAnswers
from holdfast.runner.execution.control_reader import ControlReader
from holdfast.runner.execution.location_ownership import LocationOwnership, OwnerStateUnknown
from holdfast.runner.job_phases import ReadPhase
from holdfast.storage import CheckpointClaim, Claims, ForeignCheckpoint, LocationClaims

LOG = log.configure_logging(component="test")
OWNER = CheckpointClaim(cluster="c", job="j1", attempt=7, node="n1", nonce="x")
SECOND = CheckpointClaim(cluster="c", job="j2", attempt=1, node="n2", nonce="y")
LIVE_PHASES = [phase for phase in Phase if not phase.final]


def phases(**phases: Phase) -> ReadPhase:
    return phases.get


def no_zookeeper(_job: str) -> Phase | None:
    raise Unavailable("ZooKeeper does not answer")


class Places:
    """Storage of the cluster, and a location that two jobs name."""

    def __init__(self, directory: Path) -> None:
        self.storage = directory / "storage"
        self.shared = directory / "shared"

    def root(self, job: str) -> Path:
        return self.storage / "checkpoints" / job

    def ownership(self, claim: CheckpointClaim, read_phase: ReadPhase = no_zookeeper) -> LocationOwnership:
        return LocationOwnership(str(self.root(claim.job)), str(self.storage), claim, read_phase, LOG)

    def newest_claim(self) -> CheckpointClaim:
        owner = LocationClaims(str(self.shared), warn=print).read_owner()
        assert owner is not None
        return owner.claim


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_location_is_claimed_once_for_the_attempt(places: Places) -> None:
    owner = places.ownership(OWNER)
    for spelling in (places.shared, f"{places.shared}/", f"file://{places.shared}"):
        owner.claim(str(spelling))
    assert [path.name for path in (places.shared / "_holdfast").iterdir()] == ["claim-7"]


@pytest.mark.parametrize("phase", LIVE_PHASES)
def test_location_of_a_live_job_is_refused(places: Places, phase: Phase) -> None:
    """Invariant 2: a job that waits for its next attempt owns its checkpoint, too."""
    owner = places.ownership(OWNER)
    owner.claim(str(places.shared))
    owner.write_outcomes({"ending": "failed"})
    with pytest.raises(ForeignCheckpoint) as refused:
        places.ownership(SECOND, phases(j1=phase)).claim(str(places.shared))
    assert str(refused.value) == (
        f"the checkpoint {places.shared} belongs to the job j1, which is {phase}: choose another checkpointLocation, "
        "or run 'holdfast cancel j1', then run 'holdfast resume j2'"
    )
    assert places.newest_claim() == OWNER


@pytest.mark.parametrize("phase", [Phase.FINISHED, Phase.FAILED, Phase.CANCELLED])
def test_location_of_an_ended_job_is_taken_over(places: Places, phase: Phase) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    places.ownership(SECOND, phases(j1=phase)).claim(str(places.shared))
    assert places.newest_claim() == SECOND


@pytest.mark.parametrize("claim", [SECOND, replace(SECOND, cluster="another")])
def test_owner_without_a_record_has_ended_if_its_outcome_is_beside_its_claim(places: Places, claim: CheckpointClaim) -> None:
    owner = places.ownership(OWNER)
    owner.claim(str(places.shared))
    second = places.ownership(claim, phases())
    with pytest.raises(ForeignCheckpoint, match=rf"remove {places.shared}/_holdfast/claim-7, then run 'holdfast resume j2'"):
        second.claim(str(places.shared))
    owner.write_outcomes({"ending": "finished"})
    second.claim(str(places.shared))
    assert places.newest_claim() == claim


def test_claim_that_the_message_names_can_be_removed(places: Places) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    (places.shared / "_holdfast" / "claim-7").unlink()
    places.ownership(SECOND, phases()).claim(str(places.shared))
    assert places.newest_claim() == SECOND


def test_owner_is_unknown_while_zookeeper_does_not_answer(places: Places) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    with pytest.raises(OwnerStateUnknown, match="belongs to the job j1: ZooKeeper does not answer"):
        places.ownership(SECOND).claim(str(places.shared))


def test_query_checkpoint_in_the_root_of_a_live_job_is_refused(places: Places) -> None:
    Claims(str(places.root("j1"))).claim(OWNER)
    for inside in ("query-1", "deep/er", ""):
        with pytest.raises(ForeignCheckpoint, match="belongs to the job j1, which is RUNNING"):
            places.ownership(SECOND, phases(j1=Phase.RUNNING)).claim(str(places.root("j1") / inside))
    places.ownership(SECOND, phases(j1=Phase.CANCELLED)).claim(str(places.root("j1") / "query-1"))


def test_query_checkpoint_in_a_root_that_a_live_job_has_chosen_is_refused(places: Places) -> None:
    chosen = Claims(str(places.shared))
    chosen.claim(OWNER)
    chosen.save_known_queries(KnownQueries())
    with pytest.raises(ForeignCheckpoint, match="belongs to the job j1"):
        places.ownership(SECOND, phases(j1=Phase.BACKOFF)).claim(str(places.shared / "query-1"))


def test_folder_beside_the_files_of_another_query_is_not_its_checkpoint(places: Places) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    places.ownership(SECOND, phases(j1=Phase.RUNNING)).claim(str(places.shared / "below"))
    assert places.newest_claim() == OWNER


def test_own_root_needs_no_further_claim(places: Places) -> None:
    places.ownership(SECOND).claim(f"file://{places.root('j2')}/query-1")
    assert not places.root("j2").exists()


# Answers to the driver


class Dialog:
    """Control directory of an attempt, as the driver uses it."""

    def __init__(self, directory: Path, ownership: LocationOwnership, *, retry_s_max: float = RETRY_S_MAX) -> None:
        directory.mkdir()
        self.directory = directory
        self.answers = ClaimAnswers(directory, ControlReader(directory), ownership, LOG, retry_s_max=retry_s_max)

    def ask(self, *requests: ClaimRequest) -> dict[int, ClaimAnswer]:
        write_control_file(str(self.directory), CLAIM_REQUESTS_FILE, claim_requests_to_json(requests))
        asyncio.run(self.answers.answer_requests())
        return parse_claim_answers(read_control_file(self.directory, CLAIM_ANSWERS_FILE) or {})


@pytest.fixture
def dialog(tmp_path: Path, places: Places) -> Callable[[ReadPhase], Dialog]:
    return lambda read_phase: Dialog(tmp_path / "control", places.ownership(SECOND, read_phase))


def test_each_request_is_answered_once(places: Places, dialog: Callable[[ReadPhase], Dialog], tmp_path: Path) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    driver = dialog(phases(j1=Phase.RUNNING))
    answers = driver.ask(ClaimRequest(1, str(tmp_path / "free")), ClaimRequest(2, str(places.shared)))
    assert answers[1] == ClaimAnswer(1)
    assert answers[2].refusal.startswith(f"the checkpoint {places.shared} belongs to the job j1, which is RUNNING")
    assert (tmp_path / "free" / "_holdfast" / "claim-1").exists(), "claimed before the answer"
    assert driver.ask(ClaimRequest(3, str(tmp_path / "free"))) == {**answers, 3: ClaimAnswer(3)}
    assert driver.answers.note == ""


def test_inaccessible_location_is_permitted_with_a_note(dialog: Callable[[ReadPhase], Dialog]) -> None:
    driver = dialog(phases())
    assert driver.ask(ClaimRequest(1, "ftp://host/place"))[1] == ClaimAnswer(1)
    assert "ftp://host/place is not protected against use by another job: 'ftp://' is not supported" in driver.answers.note


def test_driver_waits_while_the_state_of_the_owner_is_unknown(places: Places, dialog: Callable[[ReadPhase], Dialog]) -> None:
    places.ownership(OWNER).claim(str(places.shared))
    answers: list[Phase | None] = []

    def read_phase(job: str) -> Phase | None:
        return answers[0] if answers else no_zookeeper(job)

    driver = dialog(read_phase)
    assert driver.ask(ClaimRequest(1, str(places.shared))) == {}
    assert driver.answers.note.startswith("a query waits for its checkpoint: ")
    answers.append(Phase.FINISHED)
    assert driver.ask(ClaimRequest(1, str(places.shared))) == {1: ClaimAnswer(1)}
    assert driver.answers.note == ""


def test_unreadable_requests_are_ignored(dialog: Callable[[ReadPhase], Dialog]) -> None:
    driver = dialog(phases())
    malformed = {"requests": [1, {"number": "1", "location": "/x"}, {"number": 0, "location": "/x"}, {"number": 1}]}
    write_control_file(str(driver.directory), CLAIM_REQUESTS_FILE, malformed)
    asyncio.run(driver.answers.answer_requests())
    assert not (driver.directory / CLAIM_ANSWERS_FILE).exists()


def test_location_that_stays_unavailable_is_permitted_with_a_note(places: Places, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    dialog = Dialog(tmp_path / "control", places.ownership(SECOND), retry_s_max=0.0)
    assert dialog.ask(ClaimRequest(1, str(tmp_path / "file" / "below"))) == {1: ClaimAnswer(1)}
    assert "/file/below is not protected against use by another job" in dialog.answers.note
