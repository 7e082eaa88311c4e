"""Records as bytes and back: JSON, shaped by the dataclasses themselves.

Strict on the way in: a field that is missing, or of another type than it says, is garbage, because somebody would act on it.
Fields that are not known are passed over, so that a later version may add some without a new schema.
"""

import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Any, TypeVar, Union

from holdfast.errors import Refused

SCHEMA = 1
"""The newest schema that this version reads and writes."""
EXCERPT_BYTES = 40

Record = TypeVar("Record")


class Garbage(Refused):
    """The bytes are not a record."""


class NewerSchema(Refused):
    """The record was written by a later version of Holdfast."""


class _Misshapen(Exception):
    """A value does not have the shape that its type asks for; the text names the field."""


def encode(record: Any, *, schema: int = SCHEMA) -> bytes:
    return json.dumps({"schema": schema, **dataclasses.asdict(record)}, separators=(",", ":")).encode()


def decode(kind: type[Record], data: bytes, *, where: str) -> Record:
    """Raises Garbage or NewerSchema, whose text names `where` the bytes came from."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbage(f"{where} holds {len(data)} bytes that are not a record: {_excerpt(data)}") from error
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise Garbage(f"{where} holds something that is not a record: {_excerpt(data)}")
    if schema > SCHEMA:
        raise NewerSchema(
            f"{where} was written by a later Holdfast (schema {schema}, this one knows {SCHEMA}): upgrade this node"
        )
    try:
        record: Record = _shape(kind, fields, "")
    except _Misshapen as error:
        raise Garbage(f"{where} holds a record without a usable '{error}': {_excerpt(data)}") from error
    return record


def _shape(kind: Any, value: Any, field: str) -> Any:
    """The value as the type asks for it."""
    kind = getattr(kind, "__supertype__", kind)  # a NewType is what it was made from
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind), value, field)
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind, value, field)
    if origin is tuple:
        return _tuple(typing.get_args(kind), value, field)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind, value, field)
    if kind is float and type(value) is int:
        return _float(value, field)
    if type(value) is not kind or (kind is str and not _is_text(value)):
        raise _Misshapen(field)
    return value


def _float(value: int, field: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _Misshapen(field) from None


def _is_text(value: str) -> bool:
    """JSON can spell halves of characters, which nobody can print."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _dataclass(kind: type, value: Any, field: str) -> Any:
    if not isinstance(value, dict):
        raise _Misshapen(field)
    prefix = f"{field}." if field else ""
    values = {}
    for name, hint, required in _fields(kind):
        if name in value:
            values[name] = _shape(hint, value[name], prefix + name)
        elif required:
            raise _Misshapen(prefix + name)
    return kind(**values)


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )


def _optional(kind: Any, value: Any, field: str) -> Any:
    """Of the unions, only `X | None` is used in records."""
    if value is None:
        return None
    (other,) = (option for option in typing.get_args(kind) if option is not types.NoneType)
    return _shape(other, value, field)


def _tuple(items: tuple[Any, ...], value: Any, field: str) -> Any:
    if not isinstance(value, list):
        raise _Misshapen(field)
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_shape(items[0], item, field) for item in value)
    if len(items) != len(value):
        raise _Misshapen(field)
    return tuple(_shape(item, part, field) for item, part in zip(items, value, strict=True))


def _enum(kind: type[enum.Enum], value: Any, field: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise _Misshapen(field) from None


def _excerpt(data: bytes) -> str:
    return repr(data[:EXCERPT_BYTES]) + ("…" if len(data) > EXCERPT_BYTES else "")
