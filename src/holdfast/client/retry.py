"""Longer talks with ZooKeeper than one question: across lost connections, and over as many sessions as it takes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.client.session import CONNECT_S, RETRY_S, session
from holdfast.client.target import Target
from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.zk.session.client import Client

OUTAGE_S = 60.0
"""For how long whoever waits for a job puts up with a ZooKeeper that does not answer."""

Answer = TypeVar("Answer")
Question = Callable[[Client], Awaitable[Answer]]


def act(target: Target, action: Question[Answer], *, repeatable: bool = True) -> Answer:
    """Do something. What is `repeatable` has the same effect twice as once, and is done again if nobody knows how it went."""

    async def run() -> Answer:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONNECT_S
        while True:
            try:
                async with session(target) as client:
                    return await action(client)
            except SessionEnded as error:
                if loop.time() >= give_up_at or not repeatable:
                    raise OutcomeUnknown(f"{error} before it answered: 'holdfast show' tells whether it was done") from error
            except Unavailable:
                if loop.time() >= give_up_at:
                    raise
            await asyncio.sleep(RETRY_S)

    return asyncio.run(run())


class Conversation:
    """One question after the other."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sessions = contextlib.AsyncExitStack()
        self._client: Client | None = None

    async def __aenter__(self) -> "Conversation":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sessions.aclose()

    async def ask(self, question: Question[Answer]) -> Answer:
        """Raises Unavailable if there is no answer now. The next question may find one."""
        if self._client is None:
            self._client = await self._sessions.enter_async_context(session(self._target))
        try:
            return await question(self._client)
        except SessionEnded as error:
            self._client = None
            await self._sessions.aclose()
            raise Unavailable(str(error)) from error

    async def insist(self, question: Question[Answer], say: Callable[[str], None]) -> Answer:
        """Ask until there is an answer, within reason; what keeps us waiting is said once."""
        loop = asyncio.get_running_loop()
        give_up_at = None
        while True:
            try:
                return await self.ask(question)
            except Unavailable as error:
                if give_up_at is None:
                    give_up_at = loop.time() + OUTAGE_S
                    say(f"{error}; still waiting")
                elif loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(RETRY_S)
