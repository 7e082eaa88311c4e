"""Schema files of state stores: binary, with the schemas of the key and the value as JSON."""

import enum
import json
import re
import struct

from holdfast.checkpoint.log_files import TornFile, UnknownFormat

_TYPE = re.compile(r"[a-z_]+([ (].*)?")
"""Name of a type, with parameters or further words: `long`, `decimal(10,0)`, `interval day to second`."""


class KeyColumns(enum.Enum):
    """Columns of the key of a state store. Without any, as in a global aggregate or a limit, all rows are in partition 0."""

    NONE = "none"
    SOME = "some"
    UNKNOWN = "unknown"


class _Reader:
    """Reader of the primitive values of Java's DataOutputStream. Raises TornFile at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or self._position + size > len(self._data):
            raise TornFile("is truncated")
        self._position += size
        return self._data[self._position - size : self._position]

    def utf(self) -> str:
        (size,) = struct.unpack(">H", self._take(2))
        try:
            return self._take(size).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise TornFile("is not in the format that Spark writes") from None

    def number(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def skip(self, size: int) -> None:
        self._take(size)

    def chunks(self) -> str:
        """Read a long string, which is stored in several parts."""
        return "".join(self.utf() for _ in range(self.number()))


def read_key_columns(data: bytes) -> KeyColumns:
    """Return whether the keys have columns. Raise TornFile if Spark cannot read the file, UnknownFormat for a later version."""
    if not data:
        raise TornFile("is empty")
    reader = _Reader(data)
    version = reader.utf()
    if version == "v1":
        return _join([_columns(reader.utf(), reader.utf())])
    if version == "v2":
        return _join([_columns(reader.chunks(), reader.chunks())])
    if version == "v3":
        return _join([_read_column_family(reader) for _ in range(reader.number())])
    if version.startswith("v") and version[1:].isdigit():
        raise UnknownFormat(f"has version {version[1:]}, which is not known: a later version of Spark may have written it")
    raise TornFile("does not start with a version")


def _read_column_family(reader: _Reader) -> KeyColumns:
    reader.utf()
    reader.skip(2)
    key = reader.chunks()
    reader.skip(2)
    columns = _columns(key, reader.chunks())
    _parse(reader.chunks())  # how keys are encoded
    reader.chunks()  # columns of the user's key in a map, or an object without content
    return columns


def _columns(key: str, value: str) -> KeyColumns:
    fields = _fields(key)
    _fields(value)
    has_values = any(not isinstance(column, dict) or column.get("type") != "void" for column in fields)
    return KeyColumns.SOME if has_values else KeyColumns.NONE


def _fields(text: str) -> list[object]:
    schema = _parse(text)
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        raise TornFile("contains a schema that is not in the format that Spark writes")
    types = [column.get("type") for column in fields if isinstance(column, dict)]
    if not all(_TYPE.fullmatch(type) for type in types if isinstance(type, str)):
        raise TornFile("contains a column type that Spark cannot read")
    return fields


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise TornFile("contains a schema that is truncated or is not JSON") from None


def _join(columns: list[KeyColumns]) -> KeyColumns:
    return KeyColumns.NONE if columns and all(each is KeyColumns.NONE for each in columns) else KeyColumns.SOME
