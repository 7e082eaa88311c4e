"""Client writes: submit a job, and change its desired state.

A submission is one transaction that creates the name, the request and all znodes of the job. So a job without one of these
znodes was not submitted, and is never started. Submitting again with the same request id returns the existing job.
"""

import hashlib
import json
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import OLDEST_SCHEMA, MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.model.job import Desired, DesiredRecord, JobState, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.announced_schemas import read_schema_for_writing, require_readers
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.synced_read import read_after_sync
from holdfast.zk.session.client import Client, Committed, Create, NodeExists, NoNode, Operation, Reader, SetData, Znode

TRIES_MAX = 5


@dataclass(frozen=True, slots=True)
class NameRecord:
    job: JobId


def decode_name_owner(znode: Znode) -> JobId | None:
    """Return the job that a name znode points to, or None if its data is unreadable."""
    try:
        return decode(NameRecord, znode.data, where="the name").job
    except (MalformedRecord, NewerSchema):
        return None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    job: JobId
    spec: str
    """Hash of the submitted spec, to detect another spec under the same request id."""


async def submit(client: Client, paths: Paths, spec: Spec, *, job: JobId, request: str) -> JobId:
    """Submit the job and return its id, or the id of the job that an earlier submission with this request id created.

    Raises Refused if the name is in use, or if the request id was used for another spec.
    """
    for what, name in (("name", spec.name), ("request id", request)):
        if not is_valid_name(name):
            raise Refused(f"'{name}' cannot be used as a {what}: use 1 to 64 letters, digits, '.', '_' or '-'")
    schema = await read_schema_for_writing(client, paths)
    await require_readers(client, paths, spec)
    for _ in range(TRIES_MAX):
        try:
            outcome = await client.commit(_submit_operations(paths, spec, job, request, schema))
        except OutcomeUnknown:
            if (submitted := await _recover_lost_reply(client, paths, spec, request)) is not None:
                return submitted
            continue
        if isinstance(outcome, Committed):
            return job
        if not isinstance(outcome.error, NodeExists):
            raise outcome.error
        if (submitted := await find_submitted_job(client, paths, spec, request)) is not None:
            return submitted
        await _check_name_is_free(client, paths, spec.name)
    raise Unavailable(f"ZooKeeper did not confirm the submission: submit again with the same request id, '{request}'")


def _submit_operations(paths: Paths, spec: Spec, job: JobId, request: str, schema: int) -> list[Operation]:
    state = JobState(Phase.PENDING, "submitted, waiting for the leader", request=request)
    return [
        Create(paths.request(request), encode(RequestRecord(job, hash_spec(spec)), schema=schema)),
        Create(paths.name(spec.name), encode(NameRecord(job), schema=schema)),
        Create(paths.job(job)),
        Create(paths.job(job, "spec"), encode(spec, schema=schema)),
        Create(paths.job(job, "desired"), encode(DesiredRecord(Desired.RUN), schema=schema)),
        Create(paths.job(job, "attempt")),
        Create(paths.job(job, "report")),
        Create(paths.job(job, "state"), encode(state, schema=schema)),
    ]


def hash_spec(spec: Spec) -> str:
    """Return the hash of the spec, without its submitter. It is independent of the schema in which the spec is stored.

    Fields that earlier releases do not have are left out where possible, so that a request can be repeated after an upgrade.
    """
    fields = json.loads(encode(replace(spec, by=""), schema=OLDEST_SCHEMA))
    del fields["restart_is_default"]
    if spec.schedule is None:
        del fields["schedule"]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


async def _recover_lost_reply(client: Client, paths: Paths, spec: Spec, request: str) -> JobId | None:
    """Return the job if the submission took effect, or None if it did not. Raises OutcomeUnknown if no server answers."""
    try:
        return await read_after_sync(client, paths.requests, lambda: find_submitted_job(client, paths, spec, request))
    except Unavailable:
        raise OutcomeUnknown(
            f"the job may or may not have been submitted: submit again with the same request id, '{request}'"
        ) from None


async def find_submitted_job(client: Reader, paths: Paths, spec: Spec, request: str) -> JobId | None:
    """Return the job that was submitted with this request id, if any. Raises Refused if its spec was different."""
    path = paths.request(request)
    try:
        record = decode(RequestRecord, (await client.get(path)).data, where=path)
    except NoNode:
        return None
    if record.spec != hash_spec(spec):
        raise Refused(
            f"request '{request}' was already used for job {record.job}, which has another spec: choose another request id"
        )
    return record.job


async def _check_name_is_free(client: Client, paths: Paths, name: str) -> None:
    """Raise Refused if the name is still in use."""
    path = paths.name(name)
    try:
        record = decode(NameRecord, (await client.get(path)).data, where=path)
    except NoNode:
        return
    except MalformedRecord:
        raise Refused(f"the name '{name}' is in use, but its znode {path} is unreadable: choose another name") from None
    raise Refused(
        f"the name '{name}' belongs to job {record.job}: 'holdfast upgrade {name} SCRIPT' gives that job another program, "
        f"'holdfast cancel {name}' ends it and frees the name; or choose another name with --name"
    )


async def set_desired(
    client: Client,
    paths: Paths,
    job: JobId,
    desired: Desired,
    *,
    repeat: bool = False,
    force: bool = False,
    trust: CheckpointTrust | None = None,
    run_now: bool = False,
) -> Desired:
    """Write the desired state of a job and return the previous one. Raises Refused if the job was cancelled.

    Raises Unavailable only if nothing was written, and OutcomeUnknown if ZooKeeper is away after the reply to a write was lost.
    With `repeat` an unchanged desired state is written too. The new version restarts a running job and resumes a parked one.
    Without a new `trust`, an earlier one stays in force.
    With `run_now` a scheduled job starts a run at once.
    """
    path = paths.job(job, "desired")
    sent_version: int | None = None
    schema = await read_schema_for_writing(client, paths)
    for _ in range(TRIES_MAX):
        try:
            znode = await _read_desired(client, path, job)
        except Unavailable as error:
            if sent_version is None:
                raise
            raise OutcomeUnknown(
                f"the reply to the request for job {job} was lost: {error}; see 'holdfast show {job}'"
            ) from error
        record = decode(DesiredRecord, znode.data, where=path)
        changed = replace(record, desired=desired, force=force, trust=trust or record.trust, run_now=run_now)
        previous, data = record.desired, encode(changed, schema=schema)
        if sent_version is not None and znode.stat.version > sent_version and znode.data == data:
            return desired  # the write whose reply was lost did take effect
        if previous is Desired.CANCEL and desired is not Desired.CANCEL:
            raise Refused(f"job {job} was cancelled: a cancelled job cannot run again")
        if previous is desired and not repeat:
            return previous
        try:
            outcome = await client.commit([SetData(path, data, znode.stat.version)])
        except OutcomeUnknown:
            sent_version = znode.stat.version
            continue
        if isinstance(outcome, Committed):
            return previous
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
    raise Unavailable(f"the desired state of job {job} was changed by others during each of {TRIES_MAX} tries: try again")


async def _read_desired(client: Client, path: str, job: JobId) -> Znode:
    try:
        return await read_after_sync(client, path, lambda: client.get(path))
    except NoNode:
        raise Refused(f"there is no job {job}") from None
