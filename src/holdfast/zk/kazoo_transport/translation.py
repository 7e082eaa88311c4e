"""Translate operations to kazoo, and kazoo's results and errors to Holdfast's types."""

from collections.abc import Sequence
from typing import Any

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.security import make_acl

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Committed,
    Create,
    Delete,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
    Stat,
)

_SHARED_ACL = [make_acl("world", "anyone", read=True, create=True)]


def add_operations(kazoo: KazooClient, operations: Sequence[Operation]) -> Any:
    """Return a kazoo transaction with these operations, not yet committed."""
    transaction = kazoo.transaction()
    for operation in operations:
        match operation:
            case Create(path, data, ephemeral, sequential, shared):
                acl = kazoo.default_acl + (_SHARED_ACL if shared else [])
                transaction.create(path, data, acl=acl, ephemeral=ephemeral, sequence=sequential)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)
    return transaction


def to_stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ctime, stat.ephemeralOwner)


def to_commit_result(operations: Sequence[Operation], results: Sequence[Any]) -> Committed | Rejected:
    """Return the result of a transaction. kazoo does not raise errors: it returns them in the list of results."""
    for index, result in enumerate(results):
        # Skip errors that only mean that an operation was rolled back or not tried.
        if isinstance(result, Exception) and not isinstance(result, kz.RolledBackError | kz.RuntimeInconsistency):
            if isinstance(result, kz.SessionMovedError | kz.SessionExpiredError | kz.ConnectionLoss):
                raise OutcomeUnknown(f"ZooKeeper's reply was lost ({type(result).__name__})")
            return Rejected(index, to_holdfast_error(result, operations[index].path))
    if any(isinstance(result, Exception) for result in results):
        raise OutcomeUnknown("ZooKeeper rolled back a transaction without a reason")
    return Committed(
        tuple(_to_operation_result(operation, result) for operation, result in zip(operations, results, strict=True))
    )


def _to_operation_result(operation: Operation, result: Any) -> str | Stat | None:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return to_stat(result)
        case _:
            return None


def to_holdfast_error(error: Exception, path: str) -> HoldfastError:
    match error:
        case kz.NoNodeError():
            return NoNode(f"{path} does not exist")
        case kz.NodeExistsError():
            return NodeExists(f"{path} already exists")
        case kz.BadVersionError():
            return BadVersion(f"{path} has changed")
        case kz.NotEmptyError():
            return NotEmpty(f"{path} has children")
        case kz.NoAuthError():
            return NoAuth(f"ZooKeeper denies access to {path}: the user or password is wrong or missing")
        case _:
            return Refused(f"ZooKeeper refused the request for {path}: {type(error).__name__}")
