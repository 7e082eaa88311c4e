"""ZooKeeper operations that outlive one session: retried writes, and sessions that are replaced when they end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.client.connection.blocking import run_blocking
from holdfast.client.connection.session import CONNECT_S, RETRY_S, ClusterStopped, open_session
from holdfast.client.connection.target import Target
from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.zk.session.client import Client

OUTAGE_S = 60.0
"""Time that a waiting operation tolerates an unavailable ZooKeeper."""

Result = TypeVar("Result")
Operation = Callable[[Client], Awaitable[Result]]


def run_with_retry(target: Target, operation: Operation[Result], *, repeatable: bool = True) -> Result:
    """Run an operation in a new session, and retry it in another one after each failure, for `CONNECT_S` seconds.

    A `repeatable` operation has the same effect if it runs twice, so it is also retried when its outcome is unknown.
    Raise Unavailable if ZooKeeper does not answer, and OutcomeUnknown if the session ended before the reply.
    """

    async def run() -> Result:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONNECT_S
        while True:
            try:
                async with open_session(target) as client:
                    return await operation(client)
            except SessionEnded as error:
                if loop.time() >= give_up_at or not repeatable:
                    raise OutcomeUnknown(
                        f"{error} before it answered, so the request may or may not have been carried out: see 'holdfast show'"
                    ) from error
            except ClusterStopped:
                raise
            except Unavailable:
                if loop.time() >= give_up_at:
                    raise
            await asyncio.sleep(RETRY_S)

    return run_blocking(run)


class RetryingSession:
    """ZooKeeper session that is replaced by a new one after it ended."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sessions = contextlib.AsyncExitStack()
        self._client: Client | None = None

    async def __aenter__(self) -> "RetryingSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sessions.aclose()

    async def call(self, operation: Operation[Result]) -> Result:
        """Run an operation once. Raise Unavailable if ZooKeeper does not answer; the next call opens a new session."""
        if self._client is None:
            self._client = await self._sessions.enter_async_context(open_session(self._target))
        try:
            return await operation(self._client)
        except SessionEnded as error:
            self._client = None
            await self._sessions.aclose()
            raise Unavailable(str(error)) from error

    async def call_until_answered(self, operation: Operation[Result], on_note: Callable[[str], None]) -> Result:
        """Retry an operation for up to `OUTAGE_S` seconds. `on_note` receives the first failure."""
        loop = asyncio.get_running_loop()
        give_up_at = None
        while True:
            try:
                return await self.call(operation)
            except Unavailable as error:
                if give_up_at is None:
                    give_up_at = loop.time() + OUTAGE_S
                    on_note(f"{error}; still waiting")
                elif loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(RETRY_S)
