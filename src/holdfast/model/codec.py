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
from collections.abc import Callable
from typing import Any, TypeVar, Union

from holdfast.errors import Refused

SCHEMA = 1
"""The newest schema that this version reads and writes."""
EXCERPT_BYTES = 40

Record = TypeVar("Record")
Shaper = Callable[[Any], Any]
"""Made once for each type: to look at types again for each value would cost ten times as much as to read the JSON."""


class Garbage(Refused):
    """The bytes are not a record."""


class NewerSchema(Refused):
    """The record was written by a later version of Holdfast."""


class _Misshapen(Exception):
    """A value does not have the shape that its type asks for; the arguments name the field, from the outside in."""


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
        record: Record = _dataclass(typing.cast(type, kind))(fields)
    except _Misshapen as error:
        raise Garbage(f"{where} holds a record without a usable '{'.'.join(error.args)}': {_excerpt(data)}") from error
    return record


def _shaper(kind: Any) -> Shaper:
    """Makes, from what JSON gave, a value as this type asks for it."""
    kind = getattr(kind, "__supertype__", kind)  # a NewType is what it was made from
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind))
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind)
    if origin is tuple:
        return _tuple(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind)
    if kind is str:
        return _text
    if kind is float:
        return _float
    return _scalar(kind)


def _scalar(kind: Any) -> Shaper:
    def shape(value: Any) -> Any:
        if type(value) is not kind:
            raise _Misshapen
        return value

    return shape


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _Misshapen
    try:
        return float(value)
    except OverflowError:
        raise _Misshapen from None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Misshapen
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can spell halves of characters, which nobody can print
            raise _Misshapen from None
    return value


@functools.cache
def _dataclass(kind: type) -> Shaper:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    fields = tuple(
        (field.name, _shaper(hints[field.name]), field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )

    def shape(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misshapen
        values = {}
        for name, shaper, required in fields:
            if name in value:
                try:
                    values[name] = shaper(value[name])
                except _Misshapen as error:
                    raise _Misshapen(name, *error.args) from None
            elif required:
                raise _Misshapen(name)
        return kind(**values)

    return shape


def _optional(kind: Any) -> Shaper:
    """Of the unions, only `X | None` is used in records."""
    (other,) = (option for option in typing.get_args(kind) if option is not types.NoneType)
    shaper = _shaper(other)
    return lambda value: None if value is None else shaper(value)


def _tuple(items: tuple[Any, ...]) -> Shaper:
    shapers = tuple(_shaper(item) for item in items if item is not Ellipsis)
    endless = len(items) == 2 and items[1] is Ellipsis

    def shape(value: Any) -> Any:
        if not isinstance(value, list):
            raise _Misshapen
        if endless:
            return tuple(map(shapers[0], value))
        if len(shapers) != len(value):
            raise _Misshapen
        return tuple(shaper(part) for shaper, part in zip(shapers, value, strict=True))

    return shape


def _enum(kind: type[enum.Enum]) -> Shaper:
    def shape(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise _Misshapen from None

    return shape


def _excerpt(data: bytes) -> str:
    return repr(data[:EXCERPT_BYTES]) + ("…" if len(data) > EXCERPT_BYTES else "")
