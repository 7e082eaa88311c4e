"""Decoding of a job's znodes. The leader and the clients read jobs through this one implementation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.model.codec import MalformedRecord, NewerRecord, NewerSchema, UnreadableRecord, decode
from holdfast.model.identifiers import Attempt
from holdfast.model.job import DesiredRecord, JobState, Lease, Report, Spec
from holdfast.zk.session.reader import Znode

Record = TypeVar("Record")

_RECORD_TYPES: Mapping[str, type] = MappingProxyType(
    {"spec": Spec, "desired": DesiredRecord, "state": JobState, "lease": Lease, "report": Report}
)


@dataclass(frozen=True, slots=True)
class JobRecords:
    """Decoded parts of one job. None means that the znode does not exist or was not read."""

    spec: Spec | UnreadableRecord | None = None
    desired: DesiredRecord | UnreadableRecord | None = None
    state: JobState | UnreadableRecord | None = None
    lease: Lease | UnreadableRecord | None = None
    report: Report | UnreadableRecord | None = None
    """None also if the znode is empty: no attempt has held the lease yet."""
    attempt: Attempt | None = None
    """Last assigned attempt number: the version of the `attempt` znode, which is independent of its bytes."""

    def add(self, znodes: Mapping[str, Znode | None]) -> "JobRecords":
        """Return these records together with the given parts, decoded."""
        return replace(self, **{part: _decode_part(part, znode) for part, znode in znodes.items()})


def decode_znode(kind: type[Record], znode: Znode | None, where: str) -> Record | UnreadableRecord | None:
    """Decode a znode that may be missing, malformed or written by a later version of Holdfast."""
    if znode is None:
        return None
    try:
        return decode(kind, znode.data, where=where)
    except MalformedRecord as error:
        return UnreadableRecord(str(error))
    except NewerSchema as error:
        return NewerRecord(str(error))


def none_if_unreadable(record: Record | UnreadableRecord | None) -> Record | None:
    return None if isinstance(record, UnreadableRecord) else record


def _decode_part(part: str, znode: Znode | None) -> Any:
    if part == "attempt":
        return Attempt(znode.stat.version) if znode is not None else None
    if part == "report" and znode is not None and not znode.data:
        return None
    return decode_znode(_RECORD_TYPES[part], znode, f"the job's {part}")
