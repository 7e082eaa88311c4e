"""In-memory implementation of `holdfast.zk.session.client.Client`, without sessions and watches."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import Conflict
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Committed,
    ConnectionState,
    Create,
    Delete,
    NoNode,
    Operation,
    Read,
    ReadResult,
    Rejected,
    SessionId,
    SetData,
    Stat,
    Znode,
)

OWNER = 7
"""Session that owns the ephemeral znodes."""


@dataclass
class InMemoryZnodes:
    """Client without sessions and watches. A test creates the znodes first and can inspect the recorded calls."""

    znodes: dict[str, Znode] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    state: ConnectionState = ConnectionState.CONNECTED
    session: SessionId | None = None
    timeout_s: float = 15.0
    end_reason: str = ""
    connection_problem: str = ""
    connection_count: int = 1
    sequence: int = 0

    def put(self, path: str, data: bytes = b"", *, version: int = 0, owner: int = 0) -> "InMemoryZnodes":
        self.znodes[path] = Znode(data, Stat(version, created_zxid=1, created_ms=1, ephemeral_owner=owner))
        return self

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        self.calls.append(f"get {path}")
        if path not in self.znodes:
            raise NoNode(f"{path} does not exist")
        return self.znodes[path]

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self.calls.append(f"exists {path}")
        return self.znodes[path].stat if path in self.znodes else None

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self.calls.append(f"children {path}")
        if path not in self.znodes:
            raise NoNode(f"{path} does not exist")
        # In reverse order of creation: ZooKeeper guarantees no order.
        return [name.removeprefix(f"{path}/") for name in reversed(self.znodes) if name.rpartition("/")[0] == path]

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        found: list[ReadResult] = []
        for read in reads:
            exists = read.path in self.znodes
            found.append(await (self.children if read.children else self.get)(read.path) if exists else None)
        return found

    def take_fired_paths(self) -> set[str]:
        return set()

    async def sync(self, path: str) -> None:
        self.calls.append(f"sync {path}")

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        for index, operation in enumerate(operations):
            if (error := self._find_conflict(operation)) is not None:
                return Rejected(index, error)
        return Committed(tuple(self._apply(operation) for operation in operations))

    def _find_conflict(self, operation: Operation) -> Conflict | None:
        if isinstance(operation, Create):
            return None
        if operation.path not in self.znodes:
            return NoNode(f"{operation.path} does not exist")
        return None if self.znodes[operation.path].stat.version == operation.version else BadVersion(operation.path)

    def _apply(self, operation: Operation) -> str | Stat | None:
        match operation:
            case Create(path, data, ephemeral, sequential):
                self.sequence += 1
                name = f"{path}{self.sequence:010d}" if sequential else path
                self.put(name, data, owner=OWNER if ephemeral else 0)
                return name
            case SetData(path, data, version):
                return self.put(path, data, version=version + 1).znodes[path].stat
            case Delete(path):
                del self.znodes[path]
            case Check():
                pass
        return None

    async def close(self) -> None:
        self.state = ConnectionState.ENDED
