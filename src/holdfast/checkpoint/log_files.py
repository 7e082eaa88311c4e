"""What the small files of a checkpoint hold. Spark writes each of them as a version, and then lines of JSON."""

import json
import re
from dataclasses import dataclass
from typing import Any

VERSION_MAX = 2
CODEC_CONF = "spark.sql.streaming.stateStore.compression.codec"
VOID = "-"
"""What stands for a source of which nothing is known yet."""
_VERSION = re.compile(r"v([0-9]{1,9})")
_NO_COLUMNS = b'{"type":"struct","fields":[]}'
"""JSON of a Spark schema without columns."""


class Torn(Exception):
    """The file does not hold what it should: the rest of a sentence that begins with the file."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """`offsets/N`: up to where each source is read by batch N."""

    watermark_ms: int
    timestamp_ms: int
    offsets: tuple[str, ...]
    """One for each source, as Spark writes them."""
    codec: str = ""
    """How state is compressed."""


@dataclass(frozen=True, slots=True)
class Commit:
    """`commits/N`: batch N is done."""

    watermark_ms: int
    """That of the next batch."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """Metadata of one stateful operator."""

    name: str
    shuffle_partitions: int | None
    """The query's number of shuffle partitions. The operator itself may have only one partition. None if not recorded."""


def offsets(data: bytes) -> Offsets:
    """Raises Torn, as the others do."""
    lines = _lines(data)
    version = lines[0]
    if len(lines) < 2 or not lines[1]:
        raise Torn("ends after its version")
    fields = _object(lines[1])
    if len(lines) < 3:
        raise Torn("ends before its offsets")
    texts = [line.partition(":")[2] if version == "v2" else line for line in lines[2:]]
    for text in texts:
        if text != VOID:
            _value(text)
    conf = fields.get("conf")
    codec = str(conf.get(CODEC_CONF, "")) if isinstance(conf, dict) else ""
    return Offsets(_number(fields, "batchWatermarkMs"), _number(fields, "batchTimestampMs"), tuple(texts), codec)


def commit(data: bytes) -> Commit:
    lines = _lines(data)
    if len(lines) < 2:
        raise Torn("ends after its version, which Spark would take for a commit without a watermark")
    if len(lines) > 2:
        raise Torn("goes on after its end")
    return Commit(_number(_object(lines[1]), "nextBatchWatermarkMs"))


def metadata(data: bytes) -> str:
    """The id of the query."""
    _not_blank(data)
    id = _object(_text(data)).get("id")
    if not isinstance(id, str) or not id or not id.isprintable():
        raise Torn("does not hold the query's id")
    return id


def entries(data: bytes) -> list[Any]:
    """Of a log that a source or a sink keeps: any number of JSON values, one in a line."""
    _not_blank(data)
    # Kafka's source begins with a zero, for the sake of its oldest version.
    return [_value(line) for line in _lines(data.removeprefix(b"\0"))[1:]]


def operator(data: bytes) -> StatefulOperator:
    """Parse `state/OPERATOR/_metadata/metadata`."""
    lines = _lines(data)
    if len(lines) != 2:
        raise Torn("ends after its version" if len(lines) < 2 else "goes on after its end")
    fields = _object(lines[1])
    info, stores = fields.get("operatorInfo"), fields.get("stateStoreInfo")
    counts = [store.get("numPartitions") for store in stores if isinstance(store, dict)] if isinstance(stores, list) else []
    return StatefulOperator(
        name=str(info.get("operatorName", "")) if isinstance(info, dict) else "",
        shuffle_partitions=max((count for count in counts if type(count) is int), default=None),
    )


def state_has_key(schema: bytes) -> bool:
    """Return False if the key of a state store has no columns, as in a global aggregate.

    Spark writes a version, then the key's schema and the value's schema as JSON, with binary lengths in between.
    """
    return not schema.startswith(_NO_COLUMNS, schema.find(b"{"))


def _lines(data: bytes) -> list[str]:
    _not_blank(data)
    lines = _text(data).split("\n")
    match = _VERSION.fullmatch(lines[0].strip())
    if match is None:
        raise Torn("does not begin with a version")
    if not 1 <= int(match[1]) <= VERSION_MAX:
        raise Torn(f"says that it is of version {match[1]}, which is not known")
    return [lines[0].strip(), *lines[1:]]


def _not_blank(data: bytes) -> None:
    if not data:
        raise Torn("is empty")
    if not data.strip(b"\0"):
        raise Torn("holds nothing but zeros")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Torn("holds bytes that are not text") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Torn("is cut off, or holds something else than Spark writes") from None


def _object(text: str) -> dict[str, Any]:
    value = _value(text)
    if not isinstance(value, dict):
        raise Torn("holds something else than Spark writes")
    return value


def _number(fields: dict[str, Any], name: str) -> int:
    """One that is left out is 0 to Spark. It leaves none out, so the file is another one."""
    value = fields.get(name)
    if type(value) is not int:
        raise Torn(f"holds no {name}, so it is not what Spark wrote")
    return value
