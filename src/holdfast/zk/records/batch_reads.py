"""Reads of many znodes, in groups that are retried one by one."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, cast

from holdfast.errors import Unavailable
from holdfast.zk.session.reader import Read, Reader, Znode

GROUP_SIZE = 100
"""Jobs per group."""
UNAVAILABLE_S_MAX = 4.0
RETRY_DELAY_S = 0.1

Answer = TypeVar("Answer")
Item = TypeVar("Item")


async def read_in_groups(read: Callable[[Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]) -> list[Answer]:
    """Read the items group by group and return the answers in the order of the items.

    After a lost connection only the current group is read again. On a busy machine a connection may be lost every second,
    and a reader that starts over each time would never finish. Raises Unavailable if a group fails for `UNAVAILABLE_S_MAX`
    after its first failure.
    """
    answers: list[Answer] = []
    for first in range(0, len(items), GROUP_SIZE):
        group = items[first : first + GROUP_SIZE]
        try:
            answers += await read(group)
        except Unavailable:
            answers += await _read_again(read, group)
    return answers


async def _read_again(read: Callable[[Sequence[Item]], Awaitable[list[Answer]]], group: Sequence[Item]) -> list[Answer]:
    import asyncio  # expensive import, needed only after a failure

    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + UNAVAILABLE_S_MAX
    while True:
        await asyncio.sleep(RETRY_DELAY_S)
        try:
            return await read(group)
        except Unavailable:
            if loop.time() > give_up_at:
                raise


async def read_znodes(client: Reader, paths: Iterable[str]) -> list[Znode | None]:
    """Return the znode at each path, or None where there is none."""
    return cast(list[Znode | None], await client.read_many([Read(path) for path in paths]))
