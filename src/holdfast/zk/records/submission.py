"""What clients write about jobs: the submission, and what is wanted of a job afterwards.

A submission is one transaction: the name, the request, and every part of the job, or nothing. So a job that lacks a part
was never submitted, and can never be started. A request may be repeated: the same id is the same job.
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.codec import Garbage, decode, encode
from holdfast.model.identifiers import JobId, is_name
from holdfast.model.job import Desired, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Committed, Create, NodeExists, NoNode, Operation, SetData, Znode

TRIES_MAX = 5
LOOK_S = 10.0
LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class NameRecord:
    job: JobId


@dataclass(frozen=True, slots=True)
class RequestRecord:
    job: JobId
    spec: str
    """The hash of what was submitted, so that another spec under the same request is noticed."""


async def submit(client: Client, paths: Paths, spec: Spec, *, job: JobId, request: str) -> JobId:
    """The id of the job: the one given, or, if this request was carried out before, the one that it had then."""
    for what, name in (("name", spec.name), ("request id", request)):
        if not is_name(name):
            raise Refused(f"'{name}' cannot be used as a {what}: letters, digits, '.', '_' and '-', 64 at most")
    for _ in range(TRIES_MAX):
        try:
            outcome = await client.commit(_submission(paths, spec, job, request))
        except OutcomeUnknown:
            if (done := await _look_after_a_lost_reply(client, paths, spec, request)) is not None:
                return done
            continue
        if isinstance(outcome, Committed):
            return job
        if not isinstance(outcome.error, NodeExists):
            raise outcome.error
        if (done := await known(client, paths, spec, request)) is not None:
            return done
        await _refuse_taken_name(client, paths, spec.name)
    raise Unavailable("ZooKeeper lost every reply to the submission; the same request may be sent again")


def _submission(paths: Paths, spec: Spec, job: JobId, request: str) -> list[Operation]:
    state = State(Phase.PENDING, "submitted; no leader has looked at it yet", request=request)
    return [
        Create(paths.request(request), encode(RequestRecord(job, digest(spec)))),
        Create(paths.name(spec.name), encode(NameRecord(job))),
        Create(paths.job(job)),
        Create(paths.job(job, "spec"), encode(spec)),
        Create(paths.job(job, "desired"), encode(Wanted(Desired.RUN))),
        Create(paths.job(job, "attempt")),
        Create(paths.job(job, "report")),
        Create(paths.job(job, "state"), encode(state)),
    ]


def digest(spec: Spec) -> str:
    """Of what is to run. Who wants it makes no difference."""
    return hashlib.sha256(encode(replace(spec, by=""))).hexdigest()


async def _look_after_a_lost_reply(client: Client, paths: Paths, spec: Spec, request: str) -> JobId | None:
    """Only after a sync is what is not there not on its way either."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LOOK_S
    while True:
        try:
            await client.sync(paths.requests)
            return await known(client, paths, spec, request)
        except Unavailable:
            if loop.time() >= give_up_at:
                raise OutcomeUnknown(
                    f"whether the job was submitted is not known: ask again with the same request id, '{request}'"
                ) from None
            await asyncio.sleep(LOOK_AGAIN_S)


async def known(client: Client, paths: Paths, spec: Spec, request: str) -> JobId | None:
    """The job that this request has submitted before. Raises Refused if that was another spec."""
    path = paths.request(request)
    try:
        record = decode(RequestRecord, (await client.get(path)).data, where=path)
    except NoNode:
        return None
    if record.spec != digest(spec):
        raise Refused(f"request '{request}' was already used for job {record.job}, which is not the same")
    return record.job


async def _refuse_taken_name(client: Client, paths: Paths, name: str) -> None:
    """Raises, unless the name has become free meanwhile."""
    path = paths.name(name)
    try:
        record = decode(NameRecord, (await client.get(path)).data, where=path)
    except NoNode:
        return
    except Garbage:
        raise Refused(f"the name '{name}' is taken, by bytes that cannot be read: {path}") from None
    raise Refused(f"the name '{name}' belongs to job {record.job}: stop or cancel that one, or choose another name")


async def want(
    client: Client, paths: Paths, job: JobId, desired: Desired, *, again: bool = False, force: bool = False
) -> Desired:
    """Say what is wanted of a job. Cancelling is absorbing: nothing follows it. Returns what was wanted before.

    With `again` it is said even if it is wanted already: a new word, which restarts what runs and resumes what is parked.
    """
    path = paths.job(job, "desired")
    sent: int | None = None
    for _ in range(TRIES_MAX):
        znode = await _wanted(client, path, job)
        wanted = decode(Wanted, znode.data, where=path)
        before, word = wanted.desired, encode(replace(wanted, desired=desired, force=force))
        if sent is not None and znode.stat.version > sent and znode.data == word:
            return desired  # the reply was lost, and it was done
        if before is Desired.CANCEL and desired is not Desired.CANCEL:
            raise Refused(f"job {job} was cancelled, and stays so")
        if before is desired and not again:
            return before
        try:
            outcome = await client.commit([SetData(path, word, znode.stat.version)])
        except OutcomeUnknown:
            sent = znode.stat.version
            continue
        if isinstance(outcome, Committed):
            return before
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
    raise Unavailable(f"somebody else keeps changing what is wanted of job {job}")


async def _wanted(client: Client, path: str, job: JobId) -> Znode:
    """After a sync, and across a short interruption: what was sent before may still be on its way."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LOOK_S
    while True:
        try:
            await client.sync(path)
            return await client.get(path)
        except NoNode:
            raise Refused(f"there is no job {job}") from None
        except Unavailable:
            if loop.time() >= give_up_at:
                raise
            await asyncio.sleep(LOOK_AGAIN_S)
