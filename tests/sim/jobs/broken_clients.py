"""Sessions that lie to their owners, or leave out what they were told to check: how most of the broken variants are made."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.model.codec import encode
from holdfast.model.job import Desired, Wanted
from holdfast.zk.session.client import Check, Client, Committed, Connect, Create, Operation, Rejected, SetData, Wake, Znode

Leave = Callable[[Operation], bool]


class Wrapped:
    """A client that passes everything on."""

    def __init__(self, inner: Client) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Careless(Wrapped):
    """Leaves out some checks of every transaction."""

    def __init__(self, inner: Client, dropped: Leave) -> None:
        super().__init__(inner)
        self._dropped = dropped

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        kept = [index for index, operation in enumerate(operations) if not self._dropped(operation)]
        outcome = await self.inner.commit([operations[index] for index in kept])
        if isinstance(outcome, Rejected):
            return Rejected(kept[outcome.index], outcome.error)
        results: list[Any] = [None] * len(operations)
        for index, result in zip(kept, outcome.results, strict=True):
            results[index] = result
        return Committed(tuple(results))


class DeafToDesired(Careless):
    """What people want is always that it runs."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        znode = await self.inner.get(path, watch=watch)
        return Znode(encode(Wanted(Desired.RUN)), znode.stat) if path.endswith("/desired") else znode


class ForgetfulOfReports(Careless):
    """There was never any report."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        znode = await self.inner.get(path, watch=watch)
        return Znode(b"", znode.stat) if path.endswith("/report") and not await self._mine(path) else znode

    async def _mine(self, path: str) -> bool:
        """Only before the lease is taken."""
        stat = await self.inner.exists(path.replace("/report", "/lease"))
        session = self.inner.session
        return stat is not None and session is not None and stat.owner == session.id


class AnyVersion(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class Overwriting(Wrapped):
    """Writes whatever version is there: what `version or -1` does."""

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        return await self.inner.commit([self._whatever(operation) for operation in operations])

    @staticmethod
    def _whatever(operation: Operation) -> Operation:
        if isinstance(operation, SetData) and not operation.path.endswith(("/epoch", "/beat")):
            return SetData(operation.path, operation.data, AnyVersion(0))
        return operation


def dropping(suffix: str, kind: "Callable[[Client, Leave], Any]" = Careless) -> Callable[[Connect], Connect]:
    """Sessions that do not check paths with this ending."""

    def drop(operation: Operation) -> bool:
        return isinstance(operation, Check) and operation.path.endswith(suffix)

    return lambda connect: lambda wake: kind(connect(wake), drop)


def wrapping(kind: "Callable[[Client], Any]") -> Callable[[Connect], Connect]:
    return lambda connect: lambda wake: kind(connect(wake))


async def submit_in_two_steps(client: Client, paths: Any, spec: Any, *, job: Any, request: str) -> Any:
    """First who it is, then what it is."""

    class Halved(Wrapped):
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

    return await submit(Halved(client), paths, spec, job=job, request=request)  # type: ignore[arg-type]


async def acknowledge_first(client: Client, paths: Any, spec: Any, *, job: Any, request: str) -> Any:
    """The answer is given when the submission is on its way."""
    from holdfast.zk.records.submission import submit

    asyncio.ensure_future(submit(client, paths, spec, job=job, request=request)).add_done_callback(_ignore)
    await asyncio.sleep(0.004)
    return job


async def cancel_acknowledged_first(client: Client, paths: Any, job: Any, desired: Any, **options: Any) -> Any:
    from holdfast.zk.records.submission import want

    asyncio.ensure_future(want(client, paths, job, desired, **options)).add_done_callback(_ignore)
    await asyncio.sleep(0.004)
    return desired


def _ignore(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()


Waking = Wake
