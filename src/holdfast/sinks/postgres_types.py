"""How Spark's types stand in PostgreSQL. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    value: Callable[[Any], Any]
    """What the database is given for what Spark gave."""


def columns_of(schema: "StructType") -> list[Column]:
    return [
        Column(field.name, _type(field.name, kind := field.dataType.simpleString()), _VALUES.get(kind, _same))
        for field in schema
    ]


def _type(name: str, kind: str) -> str:
    if kind.startswith("decimal("):
        return kind.replace("decimal", "numeric")
    if kind not in _TYPES:
        raise Refused(f"the column '{name}' is a {kind}, which has no place in a table: make it text first, as by to_json")
    return _TYPES[kind]


def _same(value: Any) -> Any:
    return value


def _moment(value: datetime | None) -> datetime | None:
    """PySpark gives moments in the machine's own time zone, and does not say so."""
    return None if value is None else value.astimezone()


_VALUES: dict[str, Callable[[Any], Any]] = {
    "timestamp": _moment,
    "binary": lambda value: None if value is None else bytes(value),
}
