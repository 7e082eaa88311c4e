"""Reason of a job's phase for people: the stored reason, and the last failure until the job is healthy again."""

from holdfast.client.timestamps import age
from holdfast.model.failure_history import is_healthy_run
from holdfast.model.phase import Phase
from holdfast.zk.records.stored_job import StoredJob

_AFTER_FAILURE = (Phase.PENDING, Phase.STARTING, Phase.RUNNING)
"""Phases whose reason does not say why the job was restarted."""


def describe_reason(job: StoredJob, now: float) -> str:
    """Return the reason of the job's phase, with its last failure. `now` is a wall time."""
    return "; ".join(filter(None, (job.reason, describe_last_failure(job, now))))


def describe_last_failure(job: StoredJob, now: float) -> str:
    """Return a clause about the failure that the attempt follows, or an empty string if the job is healthy again."""
    failure = job.state.last_failure if job.state is not None else None
    if failure is None or job.phase not in _AFTER_FAILURE or failure.reason in job.reason:
        return ""
    if is_healthy_run(_started_at(job), now):
        return ""
    verb = "was lost" if failure.is_loss else "failed"
    return f"attempt {failure.attempt} {verb} {age(failure.wall, now)} ago: {failure.reason}"


def _started_at(job: StoredJob) -> float | None:
    """Return the wall time at which the living attempt started."""
    if job.lease is None or job.report is None or job.report.attempt != job.lease.attempt:
        return None
    return job.report.started
