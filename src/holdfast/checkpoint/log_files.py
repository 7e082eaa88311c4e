"""Parsers for the small files of a checkpoint: a version line, then lines of JSON.

They accept what Spark accepts: a missing field has its default value, and text after the JSON of a commit is ignored.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

OFFSETS_VERSION_MAX, COMMIT_VERSION_MAX, OPERATOR_VERSION_MAX, SOURCE_LOG_VERSION_MAX = 2, 3, 2, 1
CODEC_CONF = "spark.sql.streaming.stateStore.compression.codec"
PARTITIONS_CONF = "spark.sql.shuffle.partitions"
NO_OFFSET = "-"
"""Offset of a source that has no offset yet."""
_VERSION = re.compile(r"v\+?([0-9]{1,9})")
_UUID = re.compile(r"[0-9a-fA-F]{1,16}(-[0-9a-fA-F]{1,16}){4}")
_LINE_END = re.compile(r"\r\n|\n|\r")


class TornFile(Exception):
    """Content that Spark cannot read. The message is the rest of a sentence that starts with the file."""


class UnknownFormat(Exception):
    """Content that cannot be judged. The message is the rest of a sentence that starts with the file."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """Content of `offsets/N`: the end of batch N for each source."""

    watermark_ms: int
    timestamp_ms: int
    offsets: tuple[str, ...]
    """Offset of each source, as Spark writes it."""
    sources: tuple[str, ...] = ()
    """Name of each source: the name that the script gave it, or its position."""
    version: int = 1
    conf: dict[str, str] = field(default_factory=dict)
    """Settings that the query keeps for its whole life. Spark 2.1 wrote none."""
    has_metadata: bool = True
    """False for the offsets of continuous processing, which have no metadata."""

    @property
    def codec(self) -> str:
        """Return the compression codec of the state; empty if not recorded."""
        return self.conf.get(CODEC_CONF, "")

    @property
    def shuffle_partitions(self) -> int | None:
        text = self.conf.get(PARTITIONS_CONF, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def of(self, source: str) -> str | None:
        """Return the offset of a source, or None if it has none."""
        found = (offset for name, offset in zip(self.sources, self.offsets, strict=True) if name == source)
        return next((offset for offset in found if offset != NO_OFFSET), None)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """Content of `commits/N`: batch N is committed."""

    watermark_ms: int
    """Watermark of the next batch."""
    version: int = 1
    state_ids: dict[int, tuple[tuple[str, ...], ...]] | None = None
    """Ids of the state files, by operator and partition. None if the state has no ids."""
    is_complete: bool = True
    """False if the file ends after its version line, which Spark accepts."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """Metadata of one stateful operator."""

    name: str
    shuffle_partitions: int | None
    """The query's number of shuffle partitions. The operator itself may have only one partition. None if not recorded."""
    schema_files: tuple[str, ...] = ()
    """Absolute paths of the schema files of its state, as Spark writes them. Only version 2 of the metadata has them."""


def parse_offsets(data: bytes) -> BatchOffsets:
    """Parse `offsets/N`. Like all parsers here, raise TornFile or UnknownFormat."""
    version, lines = _parse_lines(data, OFFSETS_VERSION_MAX, trim=False)
    if not lines:
        raise TornFile("ends after its version line")
    metadata = lines[0].strip()
    if version == 2 and not metadata:
        raise TornFile("has no metadata, which version 2 requires")
    fields = _parse_object(metadata) if metadata else {}
    offsets = (
        _parse_named_offsets(lines[1:]) if version == 2 else [(str(number), text) for number, text in enumerate(lines[1:])]
    )
    if not offsets:
        raise TornFile("ends before its offsets")
    conf = fields.get("conf", {})
    if not isinstance(conf, dict):
        raise TornFile("is not in the format that Spark writes")
    return BatchOffsets(
        _parse_number(fields, "batchWatermarkMs"),
        _parse_number(fields, "batchTimestampMs"),
        tuple(text for _, text in offsets),
        tuple(name for name, _ in offsets),
        version,
        {str(key): str(value) for key, value in conf.items()},
        bool(metadata),
    )


def _parse_named_offsets(lines: list[str]) -> list[tuple[str, str]]:
    pairs = [line.partition(":") for line in lines]
    if not all(colon for _, colon, _ in pairs):
        raise TornFile("has a line without the name of a source")
    return [(name, offset) for name, _, offset in pairs]


def is_torn_json(offset: str) -> bool:
    """Return True if an offset starts like JSON but is none. An offset may also be text in the source's own format."""
    try:
        json.loads(offset)
    except (ValueError, RecursionError):
        return offset.lstrip().startswith(("{", "[", '"'))
    return False


def parse_commit(data: bytes) -> BatchCommit:
    version, lines = _parse_lines(data, COMMIT_VERSION_MAX, trim=True)
    if not lines:
        return BatchCommit(0, version, is_complete=False)
    value = _parse_json(lines[0], whole=False)
    if not isinstance(value, dict):
        raise UnknownFormat("does not contain a JSON object, and it is not known what Spark makes of it")
    if version == COMMIT_VERSION_MAX:
        _check_sinks(value)
    return BatchCommit(_parse_number(value, "nextBatchWatermarkMs"), version, _parse_state_ids(value) if version > 1 else None)


def _check_sinks(fields: dict[str, Any]) -> None:
    sinks = fields.get("sinkMetadataMap")
    if not isinstance(sinks, dict) or not all(isinstance(sink, dict) for sink in sinks.values()):
        raise TornFile("has no sinks, which version 3 requires")
    if sum(sink.get("isActive", True) is True for sink in sinks.values()) != 1:
        raise TornFile("does not name exactly one active sink, which version 3 requires")


def _parse_state_ids(fields: dict[str, Any]) -> dict[int, tuple[tuple[str, ...], ...]] | None:
    operators = fields.get("stateUniqueIds")
    if operators is None:
        return None
    try:
        return {
            int(operator): tuple(tuple(str(each) for each in ids) for ids in partitions)
            for operator, partitions in operators.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise TornFile("has no valid ids of the state") from None


def parse_query_id(data: bytes) -> str:
    """Parse `metadata` and return the id of the query."""
    _require_content(data)
    value = _parse_json(_decode(data), whole=False)
    id = value.get("id") if isinstance(value, dict) else None
    if not isinstance(id, str) or _UUID.fullmatch(id) is None:
        raise TornFile("does not contain the query's id")
    return id


def parse_log_entries(data: bytes) -> list[Any]:
    """Parse a log file of a file source or a file sink: any number of JSON values, one per line."""
    _, lines = _parse_lines(data, SOURCE_LOG_VERSION_MAX, trim=False)
    return [_parse_json(line) for line in lines]


def parse_operator(data: bytes) -> StatefulOperator:
    """Parse `state/OPERATOR/_metadata/metadata` or `state/OPERATOR/_metadata/v2/BATCH`."""
    _, lines = _parse_lines(data, OPERATOR_VERSION_MAX, trim=False)
    if not lines:
        raise TornFile("ends after its version line")
    fields = _parse_object("\n".join(lines))
    info, stores = fields.get("operatorInfo"), fields.get("stateStoreInfo")
    stores = [store for store in stores if isinstance(store, dict)] if isinstance(stores, list) else []
    counts = [store.get("numPartitions") for store in stores]
    schemas = [paths for store in stores if isinstance(paths := store.get("stateSchemaFilePaths"), list)]
    return StatefulOperator(
        name=str(info.get("operatorName", "")) if isinstance(info, dict) else "",
        shuffle_partitions=max((count for count in counts if type(count) is int), default=None),
        schema_files=tuple(path for paths in schemas for path in paths if isinstance(path, str)),
    )


def _parse_lines(data: bytes, version_max: int, *, trim: bool) -> tuple[int, list[str]]:
    """Return the version, and the lines after it as Spark splits them: the end of the file ends the last line."""
    _require_content(data)
    lines = _LINE_END.split(_decode(data))
    if lines[-1] == "":
        lines.pop()
    match = _VERSION.fullmatch(lines[0].strip() if trim else lines[0])
    if match is None or int(match[1]) == 0:
        raise TornFile("does not start with a version line")
    if int(match[1]) > version_max:
        raise UnknownFormat(f"has version {match[1]}, which is not known: a later version of Spark may have written it")
    return int(match[1]), lines[1:]


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


def _parse_json(text: str, *, whole: bool = True) -> Any:
    """Parse JSON. `whole` is False where Spark ignores text after the first value."""
    try:
        return json.loads(text) if whole else json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        raise TornFile("is truncated or is not JSON") from None


def _parse_object(text: str) -> dict[str, Any]:
    value = _parse_json(text, whole=False)
    if not isinstance(value, dict):
        raise TornFile("is not in the format that Spark writes")
    return value


def _parse_number(fields: dict[str, Any], name: str) -> int:
    """Return a number. Spark reads a missing one as 0: its first versions did not write all of them."""
    value = fields.get(name, 0)
    if type(value) is not int:
        raise TornFile(f"has no number as {name}")
    return value
