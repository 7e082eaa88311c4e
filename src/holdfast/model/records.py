"""What is written into znodes, and how: one JSON object each, with the schema it was written in.

Decoding tells apart bytes that are no record at all (`Garbage`) and a record of a later Holdfast (`NewerSchema`): the first
is set aside, the second means that this node is too old to lead.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.errors import Refused
from holdfast.model.names import Epoch, NodeId

SCHEMA = 1
"""The newest schema that this version reads and writes."""


class Garbage(Refused):
    """The bytes are not a record."""


class NewerSchema(Refused):
    """The record was written by a later version of Holdfast."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Who won the epoch. The number itself is the version of the znode, which no data can change."""

    leader: NodeId
    contender: str


@dataclass(frozen=True, slots=True)
class BeatRecord:
    """The leader's sign of life. The count is the version of the znode."""

    leader: NodeId
    epoch: Epoch
    wall_s: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    slots: int
    address: str
    version: str
    newest_schema: int


Record = TypeVar("Record", EpochRecord, BeatRecord, NodeRecord)

_ACCEPTED: dict[Any, tuple[type, ...]] = {NodeId: (str,), Epoch: (int,), str: (str,), int: (int,), float: (int, float)}


def encode(record: EpochRecord | BeatRecord | NodeRecord, *, schema: int = SCHEMA) -> bytes:
    return json.dumps({"schema": schema, **dataclasses.asdict(record)}, separators=(",", ":")).encode()


def decode(kind: type[Record], data: bytes, *, where: str) -> Record:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbage(f"{where} holds {len(data)} bytes that are not a record: {_excerpt(data)}") from error
    if not isinstance(fields, dict) or not _is_number(fields.get("schema")):
        raise Garbage(f"{where} holds something that is not a record: {_excerpt(data)}")
    if fields["schema"] > SCHEMA:
        raise NewerSchema(
            f"{where} was written by a later Holdfast (schema {fields['schema']}, this one knows {SCHEMA}): upgrade this node"
        )
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        value = fields.get(field.name)
        if not isinstance(value, _ACCEPTED[field.type]) or isinstance(value, bool):
            raise Garbage(f"{where} holds a record without a usable '{field.name}': {_excerpt(data)}")
        values[field.name] = value
    return kind(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _excerpt(data: bytes) -> str:
    return repr(data[:40]) + ("…" if len(data) > 40 else "")
