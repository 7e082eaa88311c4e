"""Reads that include every earlier write, for callers that lost the reply to a write."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.errors import Unavailable
from holdfast.zk.session.client import Client

RETRY_S_MAX = 10.0
RETRY_DELAY_S = 0.1

Answer = TypeVar("Answer")


async def read_after_sync(client: Client, path: str, read: Callable[[], Awaitable[Answer]]) -> Answer:
    """Sync, then read, and retry while the connection is lost. Raises Unavailable after `RETRY_S_MAX` seconds.

    Sync first: a znode that looks missing or unchanged may belong to a write still in flight.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + RETRY_S_MAX
    while True:
        try:
            await client.sync(path)
            return await read()
        except Unavailable:
            if loop.time() >= give_up_at:
                raise
            await asyncio.sleep(RETRY_DELAY_S)
