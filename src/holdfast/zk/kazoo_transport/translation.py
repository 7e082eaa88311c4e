"""From kazoo's values and errors to ours."""

from collections.abc import Sequence
from typing import Any

from kazoo import exceptions as kz

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused
from holdfast.zk.session.client import (
    BadVersion,
    Committed,
    Create,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
    Stat,
)


def stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ctime, stat.ephemeralOwner)


def outcome(operations: Sequence[Operation], results: Sequence[Any]) -> Committed | Rejected:
    """kazoo returns errors in the list of results, it does not raise them."""
    for index, result in enumerate(results):
        # The others only say that they were rolled back, or not tried.
        if isinstance(result, Exception) and not isinstance(result, kz.RolledBackError | kz.RuntimeInconsistency):
            if isinstance(result, kz.SessionMovedError | kz.SessionExpiredError | kz.ConnectionLoss):
                raise OutcomeUnknown(f"the reply of ZooKeeper was lost ({type(result).__name__})")
            return Rejected(index, translate(result, operations[index].path))
    if any(isinstance(result, Exception) for result in results):
        raise OutcomeUnknown("ZooKeeper rolled a transaction back without saying why")
    return Committed(tuple(_committed(operation, result) for operation, result in zip(operations, results, strict=True)))


def _committed(operation: Operation, result: Any) -> str | Stat | None:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return stat(result)
        case _:
            return None


def translate(error: Exception, path: str) -> HoldfastError:
    match error:
        case kz.NoNodeError():
            return NoNode(f"{path} is not there")
        case kz.NodeExistsError():
            return NodeExists(f"{path} is there already")
        case kz.BadVersionError():
            return BadVersion(f"{path} has changed")
        case kz.NotEmptyError():
            return NotEmpty(f"{path} has children")
        case kz.NoAuthError():
            return NoAuth(f"ZooKeeper does not let this user use {path}: wrong or missing user or password")
        case _:
            return Refused(f"ZooKeeper refuses {path}: {type(error).__name__}")
