"""Mapping of Spark types to PostgreSQL types. Pure."""

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
class PostgresColumn:
    """Column of an output table."""

    name: str
    type: str
    convert: Callable[[Any], Any]
    """Conversion of a value from PySpark to psycopg."""


def postgres_columns(schema: "StructType") -> list[PostgresColumn]:
    """Return the table columns for a Spark schema. Raises Refused for a type without a counterpart."""
    return [
        PostgresColumn(field.name, _type(field.name, kind := field.dataType.simpleString()), _CONVERTERS.get(kind, _identity))
        for field in schema
    ]


def _type(name: str, kind: str) -> str:
    if kind.startswith("decimal("):
        return kind.replace("decimal", "numeric")
    if kind not in _TYPES:
        raise Refused(
            f"the column '{name}' has the type {kind}, which PostgreSQL lacks: convert it to text, for example with to_json"
        )
    return _TYPES[kind]


def _identity(value: Any) -> Any:
    return value


def _with_time_zone(value: datetime | None) -> datetime | None:
    """Attach the local time zone: PySpark returns timestamps as naive local times."""
    return None if value is None else value.astimezone()


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "timestamp": _with_time_zone,
    "binary": lambda value: None if value is None else bytes(value),
}
