"""Encoding of dataclasses as JSON records, with a schema number.

A process reads all schemas up to its own `SCHEMA`. It writes the newest schema that every registered node reads, up to
`COMMON_SCHEMA` (`schema_for_writing`), and `OLDEST_SCHEMA` where it cannot know the readers. A record that an older schema
cannot express states the schema that it needs (`schema_required`), and is written in that one. Readers of older schemas set it
aside.

Decoding is strict: a missing field, or a field of the wrong type, makes the record malformed. Unknown fields are ignored, so
that a later version can add fields without a new schema.
"""

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Union

from holdfast.errors import Refused

SCHEMA = 2
"""Newest schema that this version reads. Schema 2: a job has a schedule."""
COMMON_SCHEMA = 1
"""Newest schema of the records that do not need a later one. After a rollback, the earlier version can still read them."""
OLDEST_SCHEMA = 1
"""Schema that every version reads."""
EXCERPT_BYTES = 40
DECODED_RECORDS_MAX = 1024
"""Number of decoded records that are kept. Most records are read again unchanged, by the leader and by the node itself."""
DECODED_BYTES_MAX = 4096
"""Size of the largest record that is kept."""

Record = TypeVar("Record")
Converter = Callable[[Any], Any]
"""Function from a JSON value to a Python value. Created once per type: inspecting types is slower than parsing JSON."""


class MalformedRecord(Refused):
    """Error for bytes that are not a record."""


class NewerSchema(Refused):
    """The record was written by a later version of Holdfast."""

    def __init__(self, message: str, schema: int) -> None:
        super().__init__(message)
        self.schema = schema


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """Placeholder for a record whose bytes cannot be decoded."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class NewerRecord(UnreadableRecord):
    """Placeholder for a record that a later version of Holdfast wrote. This version must not change it."""


class _WrongType(Exception):
    """Error for a value of the wrong type. The arguments are the path of the field, outermost first."""


def schema_for_writing(announced: Iterable[int], *, newest: int = COMMON_SCHEMA) -> int:
    """Return the newest schema that this process writes and that every registered node reads.

    `announced` has the newest schema of each registered node. Without a node the readers are unknown.
    """
    announced = tuple(announced)
    return min((newest, *announced)) if announced else OLDEST_SCHEMA


def required_schema(record: Any) -> int:
    """Return the oldest schema that can express the record."""
    return int(getattr(record, "schema_required", OLDEST_SCHEMA))


def encode(record: Any, *, schema: int = OLDEST_SCHEMA) -> bytes:
    """Encode a record in a schema, or in the one that the record needs."""
    if (required := required_schema(record)) > OLDEST_SCHEMA:
        schema = max(schema, required)
    return _ENCODER.encode({"schema": schema, **_fields_of(record)}).encode()


def _fields_of(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _field_names(record.__class__)}


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_fields_of)


def decode(kind: type[Record], data: bytes, *, where: str, newest: int = SCHEMA) -> Record:
    """Decode a record. Raise MalformedRecord or NewerSchema; the message names `where`, the origin of the bytes.

    `newest` is the newest schema that the caller reads.
    """
    try:
        decode_record = _decode_cached if len(data) <= DECODED_BYTES_MAX else _decode
        record: Record = decode_record(typing.cast(Any, kind), data, newest)
    except NewerSchema as error:
        raise NewerSchema(f"{where} {error}", error.schema) from None
    except MalformedRecord as error:
        raise MalformedRecord(f"{where} {error}") from error.__cause__
    return record


def _decode(kind: Any, data: bytes, newest: int) -> Any:
    """Decode a record. The messages of the errors lack the origin of the bytes."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"holds {len(data)} bytes that are not a record: {_excerpt(data)}") from error
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise MalformedRecord(f"holds JSON that is not a record: {_excerpt(data)}")
    if schema > newest:
        raise NewerSchema(
            f"was written by a later Holdfast (schema {schema}); this version reads up to schema {newest} and does not "
            "change it: upgrade this node",
            schema,
        )
    try:
        return _dataclass_converter(kind)(fields)
    except _WrongType as error:
        raise MalformedRecord(
            f"holds a record whose field '{'.'.join(error.args)}' is missing or has the wrong type: {_excerpt(data)}"
        ) from error


_decode_cached = functools.lru_cache(DECODED_RECORDS_MAX)(_decode)
"""Decoder that returns the same object for the same bytes. Records are immutable."""


def _converter(kind: Any) -> Converter:
    """Return the function that converts a JSON value to this type."""
    kind = getattr(kind, "__supertype__", kind)  # a NewType converts like its base type
    if dataclasses.is_dataclass(kind):
        return _dataclass_converter(typing.cast(type, kind))
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional_converter(kind)
    if origin is tuple:
        return _tuple_converter(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_converter(kind)
    if kind is str:
        return _to_text
    if kind is float:
        return _to_float
    return _scalar_converter(kind)


def _scalar_converter(kind: Any) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise _WrongType
        return value

    return convert


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _WrongType
    try:
        return float(value)
    except OverflowError:
        raise _WrongType from None


def _to_text(value: Any) -> str:
    if type(value) is not str:
        raise _WrongType
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON allows lone surrogates, which cannot be encoded
            raise _WrongType from None
    return value


@functools.cache
def _dataclass_converter(kind: type) -> Converter:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    fields = tuple(
        (field.name, _converter(hints[field.name]), field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongType
        values = {}
        for name, converter, required in fields:
            if name in value:
                try:
                    values[name] = converter(value[name])
                except _WrongType as error:
                    raise _WrongType(name, *error.args) from None
            elif required:
                raise _WrongType(name)
        return kind(**values)

    return convert


def _optional_converter(kind: Any) -> Converter:
    """Support `X | None`, the only union that records use."""
    (other,) = (option for option in typing.get_args(kind) if option is not types.NoneType)
    converter = _converter(other)
    return lambda value: None if value is None else converter(value)


def _tuple_converter(items: tuple[Any, ...]) -> Converter:
    converters = tuple(_converter(item) for item in items if item is not Ellipsis)
    variable_length = len(items) == 2 and items[1] is Ellipsis

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise _WrongType
        if variable_length:
            return tuple(map(converters[0], value))
        if len(converters) != len(value):
            raise _WrongType
        return tuple(converter(part) for converter, part in zip(converters, value, strict=True))

    return convert


def _enum_converter(kind: type[enum.Enum]) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise _WrongType from None

    return convert


def _excerpt(data: bytes) -> str:
    return repr(data[:EXCERPT_BYTES]) + ("…" if len(data) > EXCERPT_BYTES else "")
