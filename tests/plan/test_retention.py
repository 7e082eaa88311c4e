"""Retention of the records of ended jobs."""

from holdfast.model.identifiers import JobId
from holdfast.plan.retention import RetentionPolicy, select_expired, select_expired_checkpoints


def test_old_jobs_expire_and_recent_jobs_are_kept() -> None:
    assert select_expired({JobId("a"): 10.0, JobId("b"): 95.0}, RetentionPolicy(ended_s=50.0), 100.0) == ["a"]


def test_oldest_jobs_beyond_the_limit_expire() -> None:
    jobs = {JobId("c"): 97.0, JobId("a"): 99.0, JobId("b"): 98.0}
    assert select_expired(jobs, RetentionPolicy(ended_s=50.0, ended_max=1), 100.0) == ["c", "b"]


def test_no_job_expires_within_the_limits() -> None:
    assert select_expired({JobId("a"): 99.0}, RetentionPolicy(), 100.0) == []


def test_checkpoints_expire_after_their_period_the_first_deleted_first() -> None:
    deleted_at = {JobId("late"): 60.0, JobId("second"): 20.0, JobId("first"): 10.0}
    assert select_expired_checkpoints(deleted_at, RetentionPolicy(checkpoints_s=50.0), 100.0) == ["first", "second"]


def test_checkpoints_never_expire_without_a_period() -> None:
    assert select_expired_checkpoints({JobId("a"): 0.0}, RetentionPolicy(), 1e12) == []
