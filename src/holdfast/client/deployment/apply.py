"""Make the jobs of a cluster equal to a directory of job files."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.identity import current_user
from holdfast.client.connection.retry import run_with_retry
from holdfast.client.connection.target import Target
from holdfast.client.deployment.job_file import JobFile
from holdfast.client.deployment.job_request import JobRequest
from holdfast.client.deployment.submit import submit_job
from holdfast.client.deployment.upgrade import record_version
from holdfast.client.deployment.upload import Blobs
from holdfast.errors import Refused
from holdfast.model.job import Desired, Spec
from holdfast.model.plural import format_count
from holdfast.model.versions import TRIAL_S
from holdfast.zk.records import submission
from holdfast.zk.records.stored_job import StoredJob


class Action(enum.StrEnum):
    SUBMIT = "+"
    UPGRADE = "~"
    CANCEL = "-"
    NOTHING = "="


@dataclass(frozen=True, slots=True)
class JobChange:
    """Change that makes one job equal to its file."""

    action: Action
    name: str
    """Name of the job."""
    description: str
    file: JobFile | None = None
    """None if no file describes the job, which is then cancelled."""
    job: StoredJob | None = None
    """None if the job does not exist yet."""

    @property
    def new_request(self) -> JobRequest | None:
        """Request that the change sends to the cluster; None if it sends no program."""
        return self.file.request if self.file is not None and self.action is not Action.NOTHING else None


def compare(files: Sequence[JobFile], jobs: Sequence[StoredJob]) -> list[JobChange]:
    """Return the changes that make the jobs equal to the files, in the order in which to carry them out.

    Raise Refused if a job would have to change in a way that no upgrade allows.
    """
    live = {job.name: job for job in jobs if not job.has_ended}
    changes: list[JobChange] = []
    for file in files:
        job = live.pop(file.spec.name, None)
        changes.append(_submission(file) if job is None else _upgrade(file, job))
    for job in live.values():
        changes.append(JobChange(Action.CANCEL, job.name or job.id, f"cancel {job.id}: no file describes it", job=job))
    return sorted(changes, key=lambda change: (list(Action).index(change.action), change.name))


def _submission(file: JobFile) -> JobChange:
    return JobChange(Action.SUBMIT, file.spec.name, f"submit {file.spec.script}", file=file)


def _upgrade(file: JobFile, job: StoredJob) -> JobChange:
    if job.spec is None:
        raise Refused(
            f"the records of {job.label} cannot be compared with {file.path}, because they are unreadable ({job.reason}): "
            "see 'holdfast quarantine'"
        )
    wanted = _next_spec(job.spec, file.spec)
    names = {"blob": "program", "py_files": "files"}
    keys = ("blob", "arguments", "conf", "py_files", "restart", "slots", "schedule")
    different = [names.get(key, key) for key in keys if getattr(wanted, key) != getattr(job.spec, key)]
    if job.spec.restart_is_default and not wanted.restart_is_default and "restart" not in different:
        different.append("restart")
    if "slots" in different:
        raise Refused(
            f"{job.label} occupies {format_count(job.spec.slots, 'slot')}, and an upgrade cannot change that: "
            f"cancel the job with 'holdfast cancel {job.id}' and apply again"
        )
    if not different:
        return JobChange(Action.NOTHING, file.spec.name, "unchanged", file=file, job=job)
    description = f"upgrade {job.id}: new {', '.join(different)}"
    return JobChange(Action.UPGRADE, file.spec.name, description, file=file, job=job)


def _next_spec(current: Spec, described: Spec) -> Spec:
    """Return the described spec with the current values of the fields that a job file does not contain."""
    return replace(described, by=current.by, ancestors=current.ancestors)


def carry_out(target: Target, change: JobChange, callbacks: Callbacks) -> StoredJob | None:
    """Carry out one change, and return the submitted job, or else the job before the change.

    Repeating it after an interruption is safe: a completed change is not done twice.
    """
    if change.action is Action.SUBMIT:
        assert change.file is not None
        return submit_job(target, change.file.request, callbacks).job
    if change.action is Action.UPGRADE:
        assert change.file is not None and change.job is not None
        _record_upgrade(target, change.file, change.job, callbacks)
    elif change.action is Action.CANCEL:
        assert change.job is not None
        id = change.job.id
        run_with_retry(target, lambda client: submission.set_desired(client, target.paths, id, Desired.CANCEL))
    return change.job


def _record_upgrade(target: Target, file: JobFile, job: StoredJob, callbacks: Callbacks) -> None:
    def change(spec: Spec, blobs: Blobs) -> Spec:
        return replace(_next_spec(spec, file.request.spec(blobs)), by=current_user())

    record_version(target, job, file.request, change, callbacks, trial_s=TRIAL_S)
