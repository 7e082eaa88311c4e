"""Parsers for the small files of a checkpoint: a version line, then lines of JSON."""

import json
import re
from dataclasses import dataclass
from typing import Any

VERSION_MAX = 2
CODEC_CONF = "spark.sql.streaming.stateStore.compression.codec"
NO_OFFSET = "-"
"""Offset of a source that has no offset yet."""
_VERSION = re.compile(r"v([0-9]{1,9})")
_NO_COLUMNS = b'{"type":"struct","fields":[]}'
"""JSON of a Spark schema without columns."""


class TornFile(Exception):
    """Invalid file content. The message is the rest of a sentence that starts with the file."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """Content of `offsets/N`: the end of batch N for each source."""

    watermark_ms: int
    timestamp_ms: int
    offsets: tuple[str, ...]
    """Offset of each source, as Spark writes it."""
    codec: str = ""
    """Compression codec of the state."""


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """Content of `commits/N`: batch N is committed."""

    watermark_ms: int
    """Watermark of the next batch."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """Metadata of one stateful operator."""

    name: str
    shuffle_partitions: int | None
    """The query's number of shuffle partitions. The operator itself may have only one partition. None if not recorded."""


def parse_offsets(data: bytes) -> BatchOffsets:
    """Parse `offsets/N`. Like all parsers here, raise TornFile."""
    lines = _parse_lines(data)
    version = lines[0]
    if len(lines) < 2 or not lines[1]:
        raise TornFile("ends after its version line")
    fields = _parse_object(lines[1])
    if len(lines) < 3:
        raise TornFile("ends before its offsets")
    texts = [line.partition(":")[2] if version == "v2" else line for line in lines[2:]]
    for text in texts:
        if text != NO_OFFSET:
            _parse_json(text)
    conf = fields.get("conf")
    codec = str(conf.get(CODEC_CONF, "")) if isinstance(conf, dict) else ""
    return BatchOffsets(_number(fields, "batchWatermarkMs"), _number(fields, "batchTimestampMs"), tuple(texts), codec)


def parse_commit(data: bytes) -> BatchCommit:
    lines = _parse_lines(data)
    if len(lines) < 2:
        raise TornFile("ends after its version line; Spark would read it as a commit without a watermark")
    if len(lines) > 2:
        raise TornFile("has data after its end")
    return BatchCommit(_number(_parse_object(lines[1]), "nextBatchWatermarkMs"))


def parse_query_id(data: bytes) -> str:
    """Parse `metadata` and return the id of the query."""
    _require_content(data)
    id = _parse_object(_decode(data)).get("id")
    if not isinstance(id, str) or not id or not id.isprintable():
        raise TornFile("does not contain the query's id")
    return id


def parse_log_entries(data: bytes) -> list[Any]:
    """Parse a log file of a source or a sink: any number of JSON values, one per line."""
    _require_content(data)
    # The Kafka source writes a leading zero byte for compatibility with Spark 2.1.
    return [_parse_json(line) for line in _parse_lines(data.removeprefix(b"\0"))[1:]]


def parse_operator(data: bytes) -> StatefulOperator:
    """Parse `state/OPERATOR/_metadata/metadata`."""
    lines = _parse_lines(data)
    if len(lines) != 2:
        raise TornFile("ends after its version line" if len(lines) < 2 else "has data after its end")
    fields = _parse_object(lines[1])
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


def _parse_lines(data: bytes) -> list[str]:
    _require_content(data)
    lines = _decode(data).split("\n")
    match = _VERSION.fullmatch(lines[0].strip())
    if match is None:
        raise TornFile("does not start with a version line")
    if not 1 <= int(match[1]) <= VERSION_MAX:
        raise TornFile(f"has version {match[1]}, which is not supported")
    return [lines[0].strip(), *lines[1:]]


def _require_content(data: bytes) -> None:
    if not data:
        raise TornFile("is empty")
    if not data.strip(b"\0"):
        raise TornFile("contains only zero bytes")


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TornFile("is not UTF-8 text") from None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise TornFile("is truncated or is not JSON") from None


def _parse_object(text: str) -> dict[str, Any]:
    value = _parse_json(text)
    if not isinstance(value, dict):
        raise TornFile("is not in the format that Spark writes")
    return value


def _number(fields: dict[str, Any], name: str) -> int:
    """Return a number. Spark reads a missing one as 0, but never omits it, so the file is not intact."""
    value = fields.get(name)
    if type(value) is not int:
        raise TornFile(f"has no {name}, which Spark always writes")
    return value
