"""Retention of the records of ended jobs."""

from holdfast.model.identifiers import Attempt, Epoch, JobId
from holdfast.model.job import Event, JobState
from holdfast.model.phase import Phase
from holdfast.plan.retention import RetentionPolicy, select_expired, select_expired_checkpoints


def ended_job(job: str, at: float) -> tuple[JobId, JobState]:
    event = Event(1, at, Phase.FINISHED, "done", Attempt(1), None, Epoch(1))
    return JobId(job), JobState(Phase.FINISHED, "done", events=(event,))


def test_old_jobs_expire_and_recent_jobs_are_kept() -> None:
    assert select_expired([ended_job("a", 10.0), ended_job("b", 95.0)], RetentionPolicy(ended_s=50.0), 100.0) == ["a"]


def test_oldest_jobs_beyond_the_limit_expire() -> None:
    jobs = [ended_job("c", 97.0), ended_job("a", 99.0), ended_job("b", 98.0)]
    assert select_expired(jobs, RetentionPolicy(ended_s=50.0, ended_max=1), 100.0) == ["c", "b"]


def test_no_job_expires_within_the_limits() -> None:
    assert select_expired([ended_job("a", 99.0)], RetentionPolicy(), 100.0) == []


def test_checkpoints_expire_after_their_period_the_first_deleted_first() -> None:
    deleted_at = {JobId("late"): 60.0, JobId("second"): 20.0, JobId("first"): 10.0}
    assert select_expired_checkpoints(deleted_at, RetentionPolicy(checkpoints_s=50.0), 100.0) == ["first", "second"]


def test_checkpoints_never_expire_without_a_period() -> None:
    assert select_expired_checkpoints({JobId("a"): 0.0}, RetentionPolicy(), 1e12) == []
