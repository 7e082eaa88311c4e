"""Tree of znodes: operations, their errors, and the changes made by each transaction.

Only the leader's tree exists. Each change stores the previous znodes, so a lagging server reads the tree minus the changes that
it has not applied, without a copy.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import HoldfastError, Refused
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Committed,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
    Stat,
    Znode,
)


class SimZnode(NamedTuple):
    """Znode with its bookkeeping. Immutable, so that changes can keep previous versions.

    `children_created` counts all children ever created; it numbers sequential znodes.
    """

    znode: Znode
    children: tuple[str, ...] = ()
    children_created: int = 0
    data_zxid: int = 0
    """Zxid of the transaction that created the znode or last wrote its data."""
    children_zxid: int = 0
    """Zxid of the transaction that created the znode or last added or removed a child."""


class Change:
    """Effect of one committed transaction on the tree, and the watches that it fires."""

    __slots__ = ("before", "changed", "children_changed", "zxid")

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid
        self.before: dict[str, SimZnode | None] = {}
        self.changed: list[str] = []
        """Paths created, set or deleted; they fire data watches."""
        self.children_changed: list[str] = []
        """Paths that gained or lost a child or were deleted; they fire child watches."""


def parent_path_of(path: str) -> str:
    return path[: path.rfind("/")] or "/"


class Tree:
    def __init__(self) -> None:
        self.zxid = 0
        root = Znode(b"", Stat(version=0, created_zxid=0, created_ms=0, ephemeral_owner=0))
        self.nodes: dict[str, SimZnode] = {"/": SimZnode(root, ("zookeeper",), 1), "/zookeeper": SimZnode(root)}
        self.ephemerals: dict[int, dict[str, None]] = {}
        """Paths owned by each session."""

    def get(self, path: str) -> Znode | None:
        node = self.nodes.get(path)
        return node.znode if node else None

    def children(self, path: str) -> list[str]:
        node = self.nodes.get(path)
        return list(node.children) if node else []

    def commit(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[Committed | Rejected, Change | None]:
        """Apply all operations or none. Later operations see the effects of earlier ones."""
        change = Change(self.zxid + 1)
        results: list[str | Stat | None] = []
        for index, operation in enumerate(operations):
            outcome = self._apply(operation, change, session_id, now_ms)
            if isinstance(outcome, HoldfastError):
                self._undo(change)
                return Rejected(index, outcome), None
            results.append(outcome)
        self._update_ephemeral_owners(change)
        return Committed(tuple(results)), change

    def end_session(self, session_id: int) -> tuple[list[str], Change]:
        """Delete all znodes of the session in one change."""
        change = Change(self.zxid + 1)
        paths = list(self.ephemerals.pop(session_id, ()))
        for path in paths:
            self._remove(path, change)
        self.zxid = change.zxid
        return paths, change

    def restore(self, nodes: Mapping[str, SimZnode], *, open_sessions: Collection[int]) -> None:
        """Replace all znodes by a copy. Ephemeral znodes of sessions that have ended are dropped; the zxid still grows."""
        self.zxid += 1 << 32
        self.nodes = dict(nodes)
        self.ephemerals = {}
        for path, node in nodes.items():
            owner = node.znode.stat.ephemeral_owner
            if owner in open_sessions:
                self.ephemerals.setdefault(owner, {})[path] = None
            elif owner:
                self._remove(path, Change(self.zxid))

    def _update_ephemeral_owners(self, change: Change) -> None:
        self.zxid = change.zxid
        for path, before in change.before.items():
            after = self.nodes.get(path)
            old_owner = before.znode.stat.ephemeral_owner if before else 0
            new_owner = after.znode.stat.ephemeral_owner if after else 0
            if old_owner == new_owner:
                continue
            if old_owner:
                del self.ephemerals[old_owner][path]
            if new_owner:
                self.ephemerals.setdefault(new_owner, {})[path] = None

    def _undo(self, change: Change) -> None:
        for path, node in change.before.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node

    def _apply(self, operation: Operation, change: Change, session_id: int, now_ms: int) -> str | Stat | HoldfastError | None:
        if isinstance(operation, Create):
            return self._create(operation, change, session_id, now_ms)
        path = operation.path
        node = self.nodes.get(path)
        if node is None:
            return NoNode(f"{path} does not exist")
        stat = node.znode.stat
        if stat.version != operation.version:
            return BadVersion(f"{path} has version {stat.version}, not {operation.version}")
        if isinstance(operation, SetData):
            return self._set(path, node, operation.data, change)
        if isinstance(operation, Delete):
            if node.children:
                return NotEmpty(f"{path} still has children")
            self._remove(path, change)
        else:
            assert isinstance(operation, Check)
        return None

    def _create(self, operation: Create, change: Change, session_id: int, now_ms: int) -> str | HoldfastError:
        path = operation.path
        parent_path = parent_path_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return NoNode(f"{parent_path}, the parent of {path}, does not exist")
        if operation.sequential:
            path = f"{path}{parent.children_created:010d}"
        if path in self.nodes:
            return NodeExists(f"{path} already exists")
        if parent.znode.stat.ephemeral_owner:
            return Refused(f"{parent_path} is ephemeral, so it cannot have children")
        name = path[path.rfind("/") + 1 :]
        change.before.setdefault(parent_path, parent)
        change.before.setdefault(path, None)
        change.changed.append(path)
        change.children_changed.append(parent_path)
        owner = session_id if operation.ephemeral else 0
        stat = Stat(version=0, created_zxid=change.zxid, created_ms=now_ms, ephemeral_owner=owner)
        self.nodes[path] = SimZnode(Znode(operation.data, stat), data_zxid=change.zxid, children_zxid=change.zxid)
        children = (*parent.children, name)
        self.nodes[parent_path] = SimZnode(parent.znode, children, parent.children_created + 1, parent.data_zxid, change.zxid)
        return path

    def _set(self, path: str, node: SimZnode, data: bytes, change: Change) -> Stat:
        change.before.setdefault(path, node)
        change.changed.append(path)
        old = node.znode.stat
        stat = Stat(old.version + 1, old.created_zxid, old.created_ms, old.ephemeral_owner)
        self.nodes[path] = SimZnode(Znode(data, stat), node.children, node.children_created, change.zxid, node.children_zxid)
        return stat

    def _remove(self, path: str, change: Change) -> None:
        parent_path = parent_path_of(path)
        parent = self.nodes[parent_path]
        change.before.setdefault(parent_path, parent)
        change.before.setdefault(path, self.nodes[path])
        change.changed.append(path)
        change.children_changed += (path, parent_path)
        del self.nodes[path]
        name = path[path.rfind("/") + 1 :]
        rest = tuple(child for child in parent.children if child != name)
        self.nodes[parent_path] = SimZnode(parent.znode, rest, parent.children_created, parent.data_zxid, change.zxid)
