"""Interface of reads, the part of a ZooKeeper session that commands which only read need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import Conflict


@dataclass(frozen=True, slots=True)
class Stat:
    """Metadata of a znode."""

    version: int
    created_zxid: int
    created_ms: int
    ephemeral_owner: int
    """Id of the session that owns this ephemeral znode; 0 for a persistent znode."""


@dataclass(frozen=True, slots=True)
class Znode:
    """Data and metadata of a znode."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a batch."""

    path: str
    children: bool = False
    """Read the names of the children instead of the data."""
    watch: bool = False


ReadResult = Znode | list[str] | None
"""Result of a `Read`: the znode, or the names of its children, or None if the znode does not exist."""


class NoNode(Conflict):
    """The znode does not exist."""


class Reader(Protocol):
    async def get(self, path: str, *, watch: bool = False) -> Znode:
        """Return the data and Stat; raise NoNode. With `watch`, the next change calls the client's wake callback."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the Stat, or None if the znode does not exist. With `watch`, its creation calls the wake callback too."""

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the names of the children, in no particular order; raise NoNode."""

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        """Return the result of each read, in order. Much cheaper than separate calls.

        The reads run in order but not atomically: a later result may be newer. A requested watch fires for every change
        that its read does not include, and occasionally for one that it does. Missing znodes are not watched.
        """
