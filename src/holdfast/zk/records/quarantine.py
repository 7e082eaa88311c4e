"""What a person decides about a job that was set aside: to release it, or to discard it. One transaction each.

Both check the version of everything they looked at, so that a leader, or another person, who is busy with the same job makes
them look again instead of being run over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.cluster_records import QuarantineRecord
from holdfast.model.codec import Garbage, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId, is_name
from holdfast.model.job import Desired, Report, Spec, State, Wanted
from holdfast.model.versions import FIRST
from holdfast.zk.records.job_reader import optional
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord, RequestRecord
from holdfast.zk.session.client import Check, Client, Committed, Delete, NoNode, Operation, SetData, Znode

TRIES_MAX = 5
LOOK_S = 10.0
LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class SetAside:
    """A job in quarantine."""

    job: JobId
    record: QuarantineRecord | None
    """None if not even that can be read."""
    problem: str = ""


async def read_quarantine(client: Client, paths: Paths) -> list[SetAside]:
    names = await optional(client.children(paths.quarantine)) or []
    found = [await read_set_aside(client, paths, JobId(name)) for name in sorted(names)]
    return [each for each in found if each is not None]


async def read_set_aside(client: Client, paths: Paths, job: JobId) -> SetAside | None:
    znode = await optional(client.get(paths.quarantined(job)))
    if znode is None:
        return None
    try:
        return SetAside(job, decode(QuarantineRecord, znode.data, where="its record"))
    except (Garbage, NewerSchema) as error:
        return SetAside(job, None, str(error))


async def release(client: Client, paths: Paths, job: JobId, *, force: bool = False) -> None:
    """Let it run again, if it can be read as a whole.

    With `force` even if nobody can tell what was wanted of it: a person knows that it was not cancelled.
    """

    async def operations() -> list[Operation]:
        return await _releasing(client, paths, job, force=force)

    await _carry_out(client, paths, job, operations)


async def discard(client: Client, paths: Paths, job: JobId) -> None:
    """Delete every znode of it, its name and its request with it. What it left in the storage stays."""

    async def operations() -> list[Operation]:
        return await _discarding(client, paths, job)

    await _carry_out(client, paths, job, operations)


async def _carry_out(client: Client, paths: Paths, job: JobId, operations: Callable[[], Awaitable[list[Operation]]]) -> None:
    sent = False
    for _ in range(TRIES_MAX):
        if not await _is_set_aside(client, paths, job):
            if sent:
                return  # the reply was lost, and it was done
            raise Refused(f"job {job} is not in quarantine")
        try:
            outcome = await client.commit(await operations())
        except OutcomeUnknown:
            sent = True
            continue
        except NoNode:
            continue  # it changed while we looked
        if isinstance(outcome, Committed):
            return
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
    raise Unavailable(f"somebody else keeps changing job {job}")


async def _is_set_aside(client: Client, paths: Paths, job: JobId) -> bool:
    """After a sync, and across a short interruption: what was sent before may still be on its way."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LOOK_S
    while True:
        try:
            await client.sync(paths.quarantine)
            return await client.exists(paths.quarantined(job)) is not None
        except Unavailable:
            if loop.time() >= give_up_at:
                raise
            await asyncio.sleep(LOOK_AGAIN_S)


# Releasing


async def _releasing(client: Client, paths: Paths, job: JobId, *, force: bool) -> list[Operation]:
    there = await _every_part(client, paths, job)
    record = await client.get(paths.quarantined(job))
    state = decode(State, there["state"].data, where=paths.job(job, "state"))
    wanted = _wanted_again(paths, job, there["desired"], state, force=force)
    version = state.versions.next(wanted.version)
    if version != FIRST:
        there["spec"] = await client.get(paths.spec(job, version))
    spec = decode(Spec, there["spec"].data, where=paths.spec(job, version))
    if there["report"].data:
        decode(Report, there["report"].data, where=paths.job(job, "report"))
    _refuse_ended(job, state, there["attempt"])
    name = await _own_name(client, paths, job, spec.name)
    if name is None:
        raise Refused(f"its name, '{spec.name}', does not point to job {job}: discard it, and submit it again")
    checked = [Check(paths.job(job, part), there[part].stat.version) for part in ("attempt", "report", "state")]
    return [
        Check(paths.spec(job, version), there["spec"].stat.version),
        *checked,
        Check(paths.name(spec.name), name.stat.version),
        SetData(paths.job(job, "desired"), encode(wanted), there["desired"].stat.version),
        Delete(paths.quarantined(job), record.stat.version),
    ]


async def _every_part(client: Client, paths: Paths, job: JobId) -> dict[str, Znode]:
    parts: dict[str, Znode] = {}
    for part in ("spec", "desired", "attempt", "report", "state"):
        znode = await optional(client.get(paths.job(job, part)))
        if znode is None:
            raise Refused(f"job {job} has no {part}: it was not submitted as a whole, or was put back by hand; discard it")
        parts[part] = znode
    return parts


def _refuse_ended(job: JobId, state: State, attempt: Znode) -> None:
    if state.phase.final:
        raise Refused(f"job {job} ended already: {state.phase}: {state.reason}")
    if state.attempt > attempt.stat.version:
        raise Refused(f"the state of job {job} tells of attempt {state.attempt}, which was never given out: discard it")


def _wanted_again(paths: Paths, job: JobId, desired: Znode, state: State, *, force: bool) -> Wanted:
    """That it runs; otherwise as it was wanted before."""
    path = paths.job(job, "desired")
    try:
        wanted = decode(Wanted, desired.data, where=path)
    except Garbage as error:
        if not force:
            raise Refused(f"{error}; 'release --force' if nobody has cancelled the job") from error
        return Wanted(Desired.RUN, version=state.versions.current)
    if wanted.desired is Desired.CANCEL:
        raise Refused(f"job {job} was cancelled, and stays so")
    return replace(wanted, desired=Desired.RUN, force=False)


async def _own_name(client: Client, paths: Paths, job: JobId, name: str) -> Znode | None:
    """The znode of this name, if it points to this job."""
    znode = await optional(client.get(paths.name(name))) if is_name(name) else None
    if znode is None:
        return None
    try:
        owner = decode(NameRecord, znode.data, where=paths.name(name)).job
    except (Garbage, NewerSchema):
        return None
    return znode if owner == job else None


# Discarding


async def _discarding(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    children = await optional(client.children(paths.job(job))) or []
    if "lease" in children:
        raise Refused(f"an attempt of job {job} is alive: cancel the job first")
    record = await client.get(paths.quarantined(job))
    return [
        *await _names_of(client, paths, job),
        *await _request_of(client, paths, job),
        *await _tree(client, paths.job(job)),
        Delete(paths.quarantined(job), record.stat.version),
    ]


async def _tree(client: Client, path: str) -> list[Operation]:
    """Children first. Whatever is created meanwhile makes the transaction fail."""
    stat = await client.exists(path)
    if stat is None:
        return []
    below = [await _tree(client, f"{path}/{name}") for name in sorted(await optional(client.children(path)) or [])]
    return [*(operation for operations in below for operation in operations), Delete(path, stat.version)]


async def _names_of(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    """Every name that points to it: its spec, which would say which, may be what cannot be read."""
    found: list[Operation] = []
    for name in await optional(client.children(paths.names)) or []:
        if (znode := await _own_name(client, paths, job, name)) is not None:
            found.append(Delete(paths.name(name), znode.stat.version))
    return found


async def _request_of(client: Client, paths: Paths, job: JobId) -> list[Operation]:
    try:
        state = await optional(client.get(paths.job(job, "state")))
        request = decode(State, state.data, where="state").request if state is not None else ""
        znode = await optional(client.get(paths.request(request))) if is_name(request) else None
        if znode is None or decode(RequestRecord, znode.data, where="request").job != job:
            return []
    except (Garbage, NewerSchema):
        return []
    return [Delete(paths.request(request), znode.stat.version)]
