"""Clients that return wrong data, skip checks or acknowledge too early. Most broken variants are built from them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.model.codec import encode
from holdfast.model.job import Desired, DesiredRecord
from holdfast.zk.session.client import (
    Check,
    Client,
    ClientFactory,
    Committed,
    Create,
    Operation,
    Rejected,
    SetData,
    Stat,
    WakeCallback,
    Znode,
)

OperationFilter = Callable[[Operation], bool]


class ClientWrapper:
    """Client that forwards every call to another client."""

    def __init__(self, inner: Client) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class SkipsChecks(ClientWrapper):
    """Client that omits some checks from every transaction."""

    def __init__(self, inner: Client, dropped: OperationFilter) -> None:
        super().__init__(inner)
        self._dropped = dropped

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        sent = [index for index, operation in enumerate(operations) if not self._dropped(operation)]
        outcome = await self.inner.commit([operations[index] for index in sent])
        if isinstance(outcome, Rejected):
            return Rejected(sent[outcome.index], outcome.error)
        results: list[Any] = [None] * len(operations)
        for index, result in zip(sent, outcome.results, strict=True):
            results[index] = result
        return Committed(tuple(results))


class DesiredAlwaysRun(SkipsChecks):
    """Client that reads every desired state as `run`."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        znode = await self.inner.get(path, watch=watch)
        return Znode(encode(DesiredRecord(Desired.RUN)), znode.stat) if path.endswith("/desired") else znode


class HidesReports(SkipsChecks):
    """Client that reads every report as empty until its own session holds the lease."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        znode = await self.inner.get(path, watch=watch)
        return Znode(b"", znode.stat) if path.endswith("/report") and not await self._holds_lease(path) else znode

    async def _holds_lease(self, path: str) -> bool:
        """Return True if this session holds the job's lease."""
        stat = await self.inner.exists(path.replace("/report", "/lease"))
        session = self.inner.session
        return stat is not None and session is not None and stat.ephemeral_owner == session.id


class HidesLeases(ClientWrapper):
    """Client for which no lease exists."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return None if path.endswith("/lease") else await self.inner.exists(path, watch=watch)


class AnyVersion(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class IgnoresVersions(ClientWrapper):
    """Client that writes regardless of the version, as `version or -1` would."""

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        return await self.inner.commit([self._without_version(operation) for operation in operations])

    @staticmethod
    def _without_version(operation: Operation) -> Operation:
        if isinstance(operation, SetData) and not operation.path.endswith(("/epoch", "/beat")):
            return SetData(operation.path, operation.data, AnyVersion(0))
        return operation


def skipping_checks(
    suffix: str, kind: "Callable[[Client, OperationFilter], Any]" = SkipsChecks
) -> Callable[[ClientFactory], ClientFactory]:
    """Return a wrapper for factories, whose clients do not check paths with this suffix."""

    def drop(operation: Operation) -> bool:
        return isinstance(operation, Check) and operation.path.endswith(suffix)

    return lambda connect: lambda wake: kind(connect(wake), drop)


def wrapping_client(kind: "Callable[[Client], Any]") -> Callable[[ClientFactory], ClientFactory]:
    return lambda connect: lambda wake: kind(connect(wake))


async def submit_in_two_steps(client: Client, paths: Any, spec: Any, *, job: Any, request: str) -> Any:
    """Submit the name and the request first, and the job in a second transaction."""

    class TwoStepClient(ClientWrapper):
        async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
            first = [
                each for each in operations if isinstance(each, Create) and each.path.startswith((paths.requests, paths.names))
            ]
            outcome = await self.inner.commit(first)
            if isinstance(outcome, Rejected):
                return outcome
            await asyncio.sleep(0.01)
            return await self.inner.commit([each for each in operations if each not in first])

    from holdfast.zk.records.submission import submit

    return await submit(TwoStepClient(client), paths, spec, job=job, request=request)


async def acknowledge_before_commit(client: Client, paths: Any, spec: Any, *, job: Any, request: str) -> Any:
    """Return before the submission is committed."""
    from holdfast.zk.records.submission import submit

    asyncio.ensure_future(submit(client, paths, spec, job=job, request=request)).add_done_callback(_ignore)
    await asyncio.sleep(0.004)
    return job


async def acknowledge_desired_before_commit(client: Client, paths: Any, job: Any, desired: Any, **options: Any) -> Any:
    from holdfast.zk.records.submission import set_desired

    asyncio.ensure_future(set_desired(client, paths, job, desired, **options)).add_done_callback(_ignore)
    await asyncio.sleep(0.004)
    return desired


def _ignore(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()


Waking = WakeCallback
