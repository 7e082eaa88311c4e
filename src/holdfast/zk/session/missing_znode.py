"""Reads that treat a missing znode as an empty answer."""

from collections.abc import Awaitable
from typing import TypeVar

from holdfast.zk.session.reader import NoNode, Reader

Answer = TypeVar("Answer")


async def none_if_missing(call: Awaitable[Answer]) -> Answer | None:
    """Await a client call; return None if the znode does not exist."""
    try:
        return await call
    except NoNode:
        return None


async def children_or_empty(client: Reader, path: str) -> list[str]:
    """Return the names of the children, or an empty list if the znode does not exist."""
    return await none_if_missing(client.children(path)) or []
