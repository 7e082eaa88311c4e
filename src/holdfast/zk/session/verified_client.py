"""Client that calls ZooKeeper only on connections on which the cluster was verified.

A server may have been restored from an older copy while the session had no connection. So each new connection counts as
suspended until `node.cluster_identity` has compared the cluster with what this node has seen. Everything that follows orders,
certifies deaths, takes part in the election or leads uses this client.
"""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from holdfast.errors import Unavailable
from holdfast.zk.session.client import (
    Client,
    Committed,
    ConnectionState,
    Operation,
    Read,
    ReadResult,
    Rejected,
    SessionId,
    Stat,
    Znode,
)

T = TypeVar("T")


class VerifiedClient:
    """Implementation of `Client` whose calls raise Unavailable unless the cluster was verified on the current connection."""

    def __init__(self, unverified: Client) -> None:
        self.unverified = unverified
        """The same session without the restriction, for the verification itself."""
        self._verified_connection: int | None = None

    @property
    def is_verified(self) -> bool:
        return self._verified_connection == self.unverified.connection_count

    def accept(self, connection: int) -> None:
        """Allow calls on the connection with this number (see `Client.connection_count`)."""
        self._verified_connection = connection

    def revoke(self) -> None:
        """Refuse all calls until the cluster is verified again."""
        self._verified_connection = None

    @property
    def state(self) -> ConnectionState:
        state = self.unverified.state
        return ConnectionState.SUSPENDED if state is ConnectionState.CONNECTED and not self.is_verified else state

    @property
    def session(self) -> SessionId | None:
        return self.unverified.session

    @property
    def timeout_s(self) -> float:
        return self.unverified.timeout_s

    @property
    def end_reason(self) -> str:
        return self.unverified.end_reason

    @property
    def connection_problem(self) -> str:
        return self.unverified.connection_problem

    @property
    def connection_count(self) -> int:
        return self.unverified.connection_count

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        self._check()
        return await self._read(self.unverified.get(path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self._check()
        return await self._read(self.unverified.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._check()
        return await self._read(self.unverified.children(path, watch=watch))

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        self._check()
        return await self._read(self.unverified.read_many(reads))

    def take_fired_paths(self) -> set[str]:
        return self.unverified.take_fired_paths()

    async def sync(self, path: str) -> None:
        self._check()
        await self._read(self.unverified.sync(path))

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        self._check()
        return await self.unverified.commit(operations)

    async def close(self) -> None:
        await self.unverified.close()

    async def _read(self, call: Awaitable[T]) -> T:
        """Return the result unless the connection changed: a batch of reads may continue on another server."""
        result = await call
        self._check()
        return result

    def _check(self) -> None:
        if not self.is_verified and self.unverified.state is ConnectionState.CONNECTED:
            raise Unavailable("this connection to ZooKeeper is not verified yet")
