"""Jobs and events as JSON objects. Scripts rely on these keys."""

import json
import math
import time
from typing import Any

from holdfast.client.jobs.job_reason import describe_reason
from holdfast.client.jobs.listing import JobEvent
from holdfast.client.timestamps import iso
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.job import SparkApplication
from holdfast.model.schedule.runs import Run
from holdfast.zk.records.stored_job import StoredJob

UNKNOWN = "?"


def job_as_json(job: StoredJob) -> dict[str, Any]:
    progress = job.progress
    return {
        "id": job.id,
        "name": job.name,
        "phase": job.phase or UNKNOWN,
        "reason": describe_reason(job, time.time()),
        "attempt": job.attempt,
        "restarts": job.restarts,
        "node": job.node,
        "driver_pid": job.lease.driver_pid if job.lease is not None else None,
        "isolation": (job.lease.isolation or None) if job.lease is not None else None,
        "spark": application_as_json(job.lease.application if job.lease is not None else None),
        "progress": {
            "batch_id": progress.batch_id,
            "rows_per_second": _finite(progress.rows_per_second),
            "offsets": [_parse_offset(text) for text in progress.offsets],
            "lag": [_parse_offset(text) for text in progress.lag],
        },
        "submitted_at": iso(job.submitted_ms / 1000 if job.submitted_ms is not None else None),
        "desired": job.desired_record.desired if job.desired_record is not None else None,
        "checkpoint_trust": _trust_as_json(job.desired_record.trust if job.desired_record is not None else None),
        "schedule": _schedule_as_json(job),
    }


def _trust_as_json(trust: CheckpointTrust | None) -> dict[str, Any] | None:
    if trust is None:
        return None
    return {"by": trust.by, "time": iso(trust.wall), "reason": trust.reason, "findings": len(trust.findings)}


def application_as_json(application: SparkApplication | None) -> dict[str, Any] | None:
    """Return the application on a Spark cluster with its executors; None for a local master and without a live attempt."""
    if application is None:
        return None
    return {
        "application": application.id,
        "state": application.state or None,
        "executors": application.executors,
        "executors_lost": application.lost,
        "executors_decommissioned": application.decommissioned,
        "last_loss": application.last_loss or None,
    }


def _schedule_as_json(job: StoredJob) -> dict[str, Any] | None:
    schedule = job.spec.schedule if job.spec is not None else None
    if schedule is None:
        return None
    runs = job.runs
    return {
        "every_s": None if schedule.cron else schedule.every_s,
        "cron": schedule.cron or None,
        "timezone": schedule.timezone,
        "catch_up": schedule.catch_up,
        "park_after": schedule.park_after,
        "next_run_at": iso(job.next_run_at),
        "run": run_as_json(runs.run) if runs is not None and runs.run is not None else None,
        "last_run": run_as_json(runs.last) if runs is not None and runs.last is not None else None,
        "runs": runs.number if runs is not None else 0,
        "failed_in_a_row": runs.failed_in_a_row if runs is not None else 0,
    }


def run_as_json(run: Run) -> dict[str, Any]:
    return {
        "number": run.number,
        "due": iso(run.due),
        "requested": run.requested,
        "skipped": run.skipped,
        "started": iso(run.started),
        "ended": iso(run.ended),
        "outcome": run.outcome,
        "reason": run.reason,
        "first_attempt": run.first_attempt or None,
        "attempts": run.attempts,
        "batches": run.batches,
    }


def _finite(value: float | None) -> float | None:
    """Return None for infinity and NaN, which JSON cannot represent."""
    return value if value is not None and math.isfinite(value) else None


def _parse_offset(text: str) -> Any:
    """Parse an offset that Spark wrote as JSON. Return any other text unchanged."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def event_as_json(job_event: JobEvent) -> dict[str, Any]:
    event = job_event.event
    return {
        "time": iso(event.wall),
        "job": job_event.job.id,
        "name": job_event.job.name,
        "number": event.number,
        "phase": event.phase,
        "reason": event.reason,
        "attempt": event.attempt,
        "node": event.node,
        "epoch": event.epoch,
    }
