"""Reasons for people: a restarted job shows its last failure until it is healthy again."""

from dataclasses import replace

import pytest

from holdfast.client.jobs.job_reason import describe_reason
from holdfast.model.failure_history import HEALTHY_S, LastFailure
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import JobState, Lease, Report
from holdfast.model.phase import Phase
from holdfast.zk.records.stored_job import StoredJob

NOW = 10_000.0
FAILURE = LastFailure(Attempt(6), NOW - 12.0, "KeyError: 'word'")
JOB = StoredJob(
    JobId("j1"),
    "words",
    0,
    state=JobState(Phase.RUNNING, "attempt 7 runs on n1", attempt=Attempt(7), last_failure=FAILURE),
    lease=Lease(Attempt(7), NodeId("n1")),
    report=Report(Attempt(7), NodeId("n1"), started=NOW - 10.0),
)


def with_phase(phase: Phase, reason: str) -> StoredJob:
    assert JOB.state is not None
    return replace(JOB, state=replace(JOB.state, phase=phase, reason=reason), lease=None)


def test_running_job_shows_the_failure_of_the_previous_attempt() -> None:
    assert describe_reason(JOB, NOW) == "attempt 7 runs on n1; attempt 6 failed 12 s ago: KeyError: 'word'"
    assert JOB.state is not None
    lost = replace(JOB, state=replace(JOB.state, last_failure=replace(FAILURE, reason="its runner was killed", is_loss=True)))
    assert describe_reason(lost, NOW) == "attempt 7 runs on n1; attempt 6 was lost 12 s ago: its runner was killed"


def test_healthy_run_hides_the_failure() -> None:
    assert "failed" in describe_reason(JOB, NOW - 10.0 + HEALTHY_S - 1)
    assert describe_reason(JOB, NOW - 10.0 + HEALTHY_S) == "attempt 7 runs on n1"


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.STARTING])
def test_waiting_and_starting_jobs_show_the_failure(phase: Phase) -> None:
    assert describe_reason(with_phase(phase, "so"), NOW) == "so; attempt 6 failed 12 s ago: KeyError: 'word'"


@pytest.mark.parametrize("phase", [Phase.BACKOFF, Phase.PARKED, Phase.FAILED, Phase.STOPPING])
def test_other_phases_have_reasons_of_their_own(phase: Phase) -> None:
    assert describe_reason(with_phase(phase, "so"), NOW) == "so"


def test_failure_is_not_repeated_if_the_reason_contains_it() -> None:
    reason = "version 2 failed before its first batch: KeyError: 'word'; rolled back to version 1"
    assert describe_reason(with_phase(Phase.PENDING, reason), NOW) == reason
