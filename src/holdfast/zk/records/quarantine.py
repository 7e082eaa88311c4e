"""Read the quarantine, and release or discard a quarantined job on an operator's request.

Each request is one transaction that checks the version of every znode it was decided from. If the leader or another
operator changes the job at the same time, the transaction fails and is built again from new reads.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.cluster_records import QuarantineRecord
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.model.job import Desired, DesiredRecord, JobState, Report, Spec
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.announced_schemas import read_schema_for_writing
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import RequestRecord, decode_name_owner
from holdfast.zk.records.synced_read import read_after_sync
from holdfast.zk.session.client import Check, Client, Committed, Delete, NoNode, Operation, Reader, SetData, Znode
from holdfast.zk.session.missing_znode import children_or_empty, none_if_missing

TRIES_MAX = 5


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A job in quarantine."""

    job: JobId
    record: QuarantineRecord | None
    """None if the quarantine record itself is unreadable."""
    problem: str = ""


async def read_quarantine(client: Reader, paths: Paths) -> list[QuarantineEntry]:
    names = await children_or_empty(client, paths.quarantine)
    entries = [await read_quarantine_entry(client, paths, JobId(name)) for name in sorted(names)]
    return [entry for entry in entries if entry is not None]


async def read_quarantine_entry(client: Reader, paths: Paths, job: JobId) -> QuarantineEntry | None:
    znode = await none_if_missing(client.get(paths.quarantine_entry(job)))
    if znode is None:
        return None
    try:
        return QuarantineEntry(job, decode(QuarantineRecord, znode.data, where="the quarantine record"))
    except (MalformedRecord, NewerSchema) as error:
        return QuarantineEntry(job, None, str(error))


async def release_job(client: Client, paths: Paths, job: JobId, *, force: bool = False) -> None:
    """Return the job to the leader, which starts it again. Raises Refused if a part of it is missing or unreadable.

    With `force` an unreadable `desired` record is replaced: the operator confirms that the job was not cancelled.
    """

    async def operations() -> list[Operation]:
        return await _release_operations(client, paths, job, force=force)

    await _commit_with_retries(client, paths, job, operations)


async def discard_job(client: Client, paths: Paths, job: JobId) -> None:
    """Delete every znode of the job, including its name and its request. Its files in the storage stay."""

    async def operations() -> list[Operation]:
        return await _discard_operations(client, paths, job)

    await _commit_with_retries(client, paths, job, operations)


async def _commit_with_retries(
    client: Client, paths: Paths, job: JobId, operations: Callable[[], Awaitable[list[Operation]]]
) -> None:
    sent = False
    for _ in range(TRIES_MAX):
        if not await _is_quarantined(client, paths, job):
            if sent:
                return  # the transaction whose reply was lost did take effect
            raise Refused(f"job {job} is not in quarantine")
        try:
            outcome = await client.commit(await operations())
        except OutcomeUnknown:
            sent = True
            continue
        except NoNode:
            continue  # a znode was deleted while the operations were built
        if isinstance(outcome, Committed):
            return
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
    raise Unavailable(f"job {job} was changed by others during each of {TRIES_MAX} tries: try again")


async def _is_quarantined(client: Client, paths: Paths, job: JobId) -> bool:
    entry = paths.quarantine_entry(job)
    return await read_after_sync(client, paths.quarantine, lambda: client.exists(entry)) is not None


# Release


async def _release_operations(client: Client, paths: Paths, job: JobId, *, force: bool) -> list[Operation]:
    parts = await _read_parts(client, paths, job)
    record = await client.get(paths.quarantine_entry(job))
    state = decode(JobState, parts["state"].data, where=paths.job(job, "state"))
    desired_record = _make_desired_record(paths, job, parts["desired"], state, force=force)
    version = state.versions.next_version(desired_record.version)
    if version != FIRST_VERSION:
        parts["spec"] = await client.get(paths.spec(job, version))
    spec = decode(Spec, parts["spec"].data, where=paths.spec(job, version))
    if parts["report"].data:
        decode(Report, parts["report"].data, where=paths.job(job, "report"))
    _check_state(job, state, parts["attempt"])
    name = await _read_owned_name(client, paths, job, spec.name)
    if name is None:
        raise Refused(f"the name '{spec.name}' does not point to job {job}: discard the job and submit it again")
    desired_data = encode(desired_record, schema=await read_schema_for_writing(client, paths))
    checks = [Check(paths.job(job, part), parts[part].stat.version) for part in ("attempt", "report", "state")]
    return [
        Check(paths.spec(job, version), parts["spec"].stat.version),
        *checks,
        Check(paths.name(spec.name), name.stat.version),
        SetData(paths.job(job, "desired"), desired_data, parts["desired"].stat.version),
        Delete(paths.quarantine_entry(job), record.stat.version),
    ]


async def _read_parts(client: Client, paths: Paths, job: JobId) -> dict[str, Znode]:
    parts: dict[str, Znode] = {}
    for part in ("spec", "desired", "attempt", "report", "state"):
        znode = await none_if_missing(client.get(paths.job(job, part)))
        if znode is None:
            raise Refused(f"job {job} has no {part} znode: it was deleted or restored by hand; discard the job")
        parts[part] = znode
    return parts


def _check_state(job: JobId, state: JobState, attempt: Znode) -> None:
    """Raise Refused if the job has ended, or if its state was restored by hand."""
    if state.phase.final:
        raise Refused(f"job {job} ended already: {state.phase}: {state.reason}")
    if state.attempt > attempt.stat.version:
        raise Refused(f"the state of job {job} names attempt {state.attempt}, which was never assigned: discard the job")


def _make_desired_record(paths: Paths, job: JobId, desired: Znode, state: JobState, *, force: bool) -> DesiredRecord:
    """Return the job's desired record, changed to RUN."""
    path = paths.job(job, "desired")
    try:
        record = decode(DesiredRecord, desired.data, where=path)
    except MalformedRecord as error:
        if not force:
            raise Refused(f"{error}; if the job was not cancelled, use 'release --force'") from error
        return DesiredRecord(Desired.RUN, version=state.versions.current)
    if record.desired is Desired.CANCEL:
        raise Refused(f"job {job} was cancelled: a cancelled job cannot run again")
    return replace(record, desired=Desired.RUN, force=False)


async def _read_owned_name(client: Client, paths: Paths, job: JobId, name: str) -> Znode | None:
    """Return the znode of this name if it points to this job."""
    znode = await none_if_missing(client.get(paths.name(name))) if is_valid_name(name) else None
    return znode if znode is not None and decode_name_owner(znode) == job else None


# Discard


async def _discard_operations(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    if "lease" in await children_or_empty(client, paths.job(job)):
        raise Refused(f"an attempt of job {job} is running: cancel the job first")
    record = await client.get(paths.quarantine_entry(job))
    return [
        *await _delete_names(client, paths, job),
        *await _delete_request(client, paths, job),
        *await _delete_tree(client, paths.job(job)),
        Delete(paths.quarantine_entry(job), record.stat.version),
    ]


async def _delete_tree(client: Client, path: str) -> list[Operation]:
    """Return the deletions of a znode and all below it, children first. A znode created later fails the transaction."""
    stat = await client.exists(path)
    if stat is None:
        return []
    below = [await _delete_tree(client, f"{path}/{name}") for name in sorted(await children_or_empty(client, path))]
    return [*(operation for operations in below for operation in operations), Delete(path, stat.version)]


async def _delete_names(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    """Return the deletions of all names that point to the job. Searches all names: the job's spec may be unreadable."""
    operations: list[Operation] = []
    for name in await children_or_empty(client, paths.names):
        if (znode := await _read_owned_name(client, paths, job, name)) is not None:
            operations.append(Delete(paths.name(name), znode.stat.version))
    return operations


async def _delete_request(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    try:
        state = await none_if_missing(client.get(paths.job(job, "state")))
        request = decode(JobState, state.data, where="state").request if state is not None else ""
        znode = await none_if_missing(client.get(paths.request(request))) if is_valid_name(request) else None
        if znode is None or decode(RequestRecord, znode.data, where="request").job != job:
            return []
    except (MalformedRecord, NewerSchema):
        return []
    return [Delete(paths.request(request), znode.stat.version)]
