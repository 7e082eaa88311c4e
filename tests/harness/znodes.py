"""In-memory znodes with the reading half of `holdfast.zk.session.client.Client`. No sessions, no watches."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import Conflict
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Committed,
    Create,
    Delete,
    Found,
    NoNode,
    Operation,
    Read,
    Rejected,
    SessionId,
    SetData,
    Stat,
    State,
    Znode,
)

OWNER = 7
"""The session that holds what is made ephemeral here."""


@dataclass
class Znodes:
    """Implements the protocol. A test lays out the znodes first, and may look at what was asked for."""

    held: dict[str, Znode] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    state: State = State.CONNECTED
    session: SessionId | None = None
    timeout_s: float = 15.0
    ended_because: str = ""
    sequence: int = 0

    def put(self, path: str, data: bytes = b"", *, version: int = 0, owner: int = 0) -> "Znodes":
        self.held[path] = Znode(data, Stat(version, created_zxid=1, created_ms=1, owner=owner))
        return self

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        self.calls.append(f"get {path}")
        if path not in self.held:
            raise NoNode(f"{path} is not there")
        return self.held[path]

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self.calls.append(f"exists {path}")
        return self.held[path].stat if path in self.held else None

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self.calls.append(f"children {path}")
        if path not in self.held:
            raise NoNode(f"{path} is not there")
        # Last made, first told: ZooKeeper promises no order.
        return [name.removeprefix(f"{path}/") for name in reversed(self.held) if name.rpartition("/")[0] == path]

    async def read(self, reads: Sequence[Read]) -> list[Found]:
        found: list[Found] = []
        for read in reads:
            there = read.path in self.held
            found.append(await (self.children if read.children else self.get)(read.path) if there else None)
        return found

    def take_fired(self) -> set[str]:
        return set()

    async def sync(self, path: str) -> None:
        self.calls.append(f"sync {path}")

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        for index, operation in enumerate(operations):
            if (error := self._objection(operation)) is not None:
                return Rejected(index, error)
        return Committed(tuple(self._apply(operation) for operation in operations))

    def _objection(self, operation: Operation) -> Conflict | None:
        if isinstance(operation, Create):
            return None
        if operation.path not in self.held:
            return NoNode(f"{operation.path} is not there")
        return None if self.held[operation.path].stat.version == operation.version else BadVersion(operation.path)

    def _apply(self, operation: Operation) -> str | Stat | None:
        match operation:
            case Create(path, data, ephemeral, sequential):
                self.sequence += 1
                name = f"{path}{self.sequence:010d}" if sequential else path
                self.put(name, data, owner=OWNER if ephemeral else 0)
                return name
            case SetData(path, data, version):
                return self.put(path, data, version=version + 1).held[path].stat
            case Delete(path):
                del self.held[path]
            case Check():
                pass
        return None

    async def close(self) -> None:
        self.state = State.ENDED
