"""Submit a job: upload its code, then write its records in one transaction."""

import secrets
from dataclasses import dataclass, replace

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.identity import current_user
from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.retry import run_with_retry
from holdfast.client.connection.target import Target
from holdfast.client.deployment.job_request import JobRequest
from holdfast.client.deployment.restore import Restore
from holdfast.client.deployment.upload import Blobs, upload_and_record
from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord, JobState, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records import submission
from holdfast.zk.records.cluster_view import read_cluster
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.session.client import Client, Reader


@dataclass(frozen=True, slots=True)
class SubmitResult:
    job: StoredJob
    is_new: bool
    """False if an earlier call with the same request id submitted the job."""
    has_leader: bool
    """False if no node leads. The job starts as soon as a node does."""


def submit_job(
    target: Target,
    request: JobRequest,
    callbacks: Callbacks,
    *,
    request_id: str | None = None,
    restore: Restore | None = None,
) -> SubmitResult:
    """Submit a job. Raise Refused if its name is taken, and OutcomeUnknown if ZooKeeper's reply was lost."""
    key = request_id or f"r{secrets.token_hex(8)}"
    new_id = JobId(f"j{secrets.token_hex(6)}")

    def record(blobs: Blobs) -> SubmitResult:
        ancestors = restore.ancestors if restore is not None else ()
        spec = replace(request.spec(blobs), by=current_user(), ancestors=ancestors)
        return _record(target, spec, new_id, key, restore)

    return upload_and_record(target, request.files, record, callbacks)


def _record(target: Target, spec: Spec, new_id: JobId, request_id: str, restore: Restore | None) -> SubmitResult:
    if restore is not None and not _was_submitted(target, spec, request_id):
        restore.prepare(new_id)

    async def operation(client: Client) -> SubmitResult:
        id = await submission.submit(client, target.paths, spec, job=new_id, request=request_id)
        return await _read_back(client, target.paths, id, spec, is_new=id == new_id)

    try:
        return run_with_retry(target, operation)
    except OutcomeUnknown:
        raise
    except HoldfastError:
        if restore is not None:
            restore.abandon(new_id)
        raise


def _was_submitted(target: Target, spec: Spec, request_id: str) -> bool:
    """Return True if an earlier call submitted the job, so that nothing may be stopped or copied again."""

    async def query(client: Reader) -> JobId | None:
        return await submission.find_submitted_job(client, target.paths, spec, request_id)

    return read_with_retry(target, query) is not None


async def _read_back(client: Client, paths: Paths, id: JobId, spec: Spec, *, is_new: bool) -> SubmitResult:
    """Read the submitted job. If that fails, return the written records: the submission itself succeeded."""
    try:
        job = await read_job(client, paths, id)
        has_leader = (await read_cluster(client, paths)).leader is not None
    except HoldfastError:
        job, has_leader = None, True
    state = JobState(Phase.PENDING, "submitted, waiting for the leader")
    written = StoredJob(id, spec.name, None, spec=spec, desired_record=DesiredRecord(Desired.RUN), state=state)
    return SubmitResult(job or written, is_new, has_leader)
