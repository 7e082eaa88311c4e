"""Upgrade a job: give it another program that continues from the same checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.identity import current_user
from holdfast.client.connection.retry import run_with_retry
from holdfast.client.connection.target import Target
from holdfast.client.deployment.job_request import JobRequest
from holdfast.client.deployment.script_warnings import report_script_warnings
from holdfast.client.deployment.upload import Blobs, upload_and_record
from holdfast.client.jobs.waiting import WaitFailed, until_accepted, wait_for_job
from holdfast.model.job import Desired, JobState, Spec
from holdfast.model.schedule.due_times import Schedule
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.records.upgrade import upgrade as write_version
from holdfast.zk.session.client import Client

SpecChange = Callable[[Spec, Blobs], Spec]
"""Returns the new spec for the current spec and the uploaded files."""


ScheduleChange = Callable[[Schedule | None], Schedule | None]
"""Returns the new schedule for the current one."""


def keep_schedule(schedule: Schedule | None) -> Schedule | None:
    return schedule


@dataclass(frozen=True, slots=True)
class UpgradeResult:
    job: StoredJob
    """State of the job before the upgrade."""
    version: int | None
    """Number of the new version; None if the job already runs exactly this."""
    effect: str
    """Predicate of a sentence whose subject is the job: how the job was, and what happens next."""


def upgrade_job(
    target: Target,
    job: StoredJob,
    request: JobRequest,
    callbacks: Callbacks,
    *,
    restart: str | None,
    trial_s: float,
    schedule: ScheduleChange = keep_schedule,
) -> UpgradeResult:
    """Replace the program of a job. Arguments, settings and files that the request leaves out stay as they are."""
    conf, keeps_files = dict(request.conf), False

    def change(spec: Spec, blobs: Blobs) -> Spec:
        nonlocal conf, keeps_files
        new = request.spec(blobs)
        conf = dict(new.conf or spec.conf)
        keeps_files = bool(spec.py_files) and not new.py_files
        return replace(
            spec,
            script=new.script,
            blob=new.blob,
            restart=restart or spec.restart,
            restart_is_default=spec.restart_is_default and restart is None,
            arguments=new.arguments or spec.arguments,
            conf=tuple(conf.items()),
            py_files=new.py_files or spec.py_files,
            by=current_user(),
            schedule=schedule(spec.schedule),
        )

    version = record_version(target, job, request, change, callbacks, trial_s=trial_s)
    report_script_warnings(request, conf, callbacks, keeps_files=keeps_files)
    return UpgradeResult(job, version, _effect(job, version))


def record_version(
    target: Target, job: StoredJob, request: JobRequest, change: SpecChange, callbacks: Callbacks, *, trial_s: float
) -> int | None:
    """Upload the request's files and write the next version of the job's spec. Return None if nothing changes."""

    def record(blobs: Blobs) -> int | None:
        async def operation(client: Client) -> int | None:
            return await write_version(client, target.paths, job.id, lambda spec: change(spec, blobs), trial_s=trial_s)

        return run_with_retry(target, operation)

    return upload_and_record(target, request.files, record, callbacks)


def _effect(job: StoredJob, version: int | None) -> str:
    if version is None:
        return "already has exactly this program; nothing was changed"
    if is_stopped(job):
        return f"is stopped; 'holdfast resume {job.name or job.id}' starts version {version}"
    if job.next_run_at is not None:
        return f"waits for its next run ({job.reason}), which starts with version {version}"
    if job.lease is None:
        return f"is not running ({job.phase}: {job.reason}) and starts with version {version} as soon as a node has free slots"
    return f"is running on {job.lease.node} and stops after its current batch; then version {version} continues from there"


def is_stopped(job: StoredJob) -> bool:
    return job.desired_record is not None and job.desired_record.desired is Desired.STOP


def wait_until_accepted(
    target: Target, job: StoredJob, version: int, callbacks: Callbacks, *, timeout_s: float | None = None
) -> StoredJob:
    """Wait until a version has committed its first batch. Raise WaitFailed if it was rejected or the job cannot run."""
    try:
        return wait_for_job(target, job, until_accepted(version), callbacks, timeout_s=timeout_s)
    except WaitFailed as error:
        state = error.job.state
        if state is not None and state.versions.rejected == version:
            raise WaitFailed(error.job, f"{error.job.label}: {_rejection_reason(state, version)}") from None
        raise


def _rejection_reason(state: JobState, version: int) -> str:
    """Return the reason from the job's events: its current reason may already be about the previous version."""
    reasons = (event.reason for event in reversed(state.events) if event.reason.startswith(f"version {version} "))
    return next(reasons, f"version {version} failed before its first batch; rolled back to version {state.versions.current}")
