"""Reads of many znodes, in groups that are retried one by one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, cast

from holdfast.errors import Unavailable
from holdfast.zk.session.client import Client, Read, Znode

GROUP_SIZE = 100
"""Jobs per group."""
UNAVAILABLE_S_MAX = 4.0
RETRY_DELAY_S = 0.1

Answer = TypeVar("Answer")
Item = TypeVar("Item")


async def read_in_groups(read: Callable[[Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]) -> list[Answer]:
    """Read the items group by group and return the answers in the order of the items.

    After a lost connection only the current group is read again. On a busy machine a connection may be lost every second,
    and a reader that starts over each time would never finish. Raises Unavailable if a group fails for `UNAVAILABLE_S_MAX`.
    """
    loop = asyncio.get_running_loop()
    answers: list[Answer] = []
    for first in range(0, len(items), GROUP_SIZE):
        started_at = loop.time()
        while True:
            try:
                answers += await read(items[first : first + GROUP_SIZE])
                break
            except Unavailable:
                if loop.time() > started_at + UNAVAILABLE_S_MAX:
                    raise
                await asyncio.sleep(RETRY_DELAY_S)
    return answers


async def read_znodes(client: Client, paths: Iterable[str]) -> list[Znode | None]:
    """Return the znode at each path, or None where there is none."""
    return cast(list[Znode | None], await client.read_many([Read(path) for path in paths]))
