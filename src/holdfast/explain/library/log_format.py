"""Log format: the header of a record and the fields in it. Declared in `library/formats.toml` and in the user's files."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import Refused
from holdfast.explain.event import NO_FIELDS
from holdfast.explain.library.timestamp import Timestamp, parse_timestamp
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.header_dfa import HeaderTable
from holdfast.explain.scan.record_scan import MARKS, FileMode

_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "datetime", "__REALTIME_TIMESTAMP")
_MESSAGE_KEYS = ("msg", "message", "event", "text", "log", "MESSAGE")
_LEVEL_KEYS = ("level", "severity", "log.level", "levelname")
_LOGGER_KEYS = ("logger", "logger_name", "log.logger", "component", "name")


class RecordHeader(NamedTuple):
    """Fields of a record's header."""

    timestamp: Timestamp | None
    message_at: int
    """Start of the message, in characters."""
    format: str = ""
    level: str = ""
    thread: str = ""
    logger: str = ""
    actor: str = ""
    """Component that the line names as its subject."""
    fields: Mapping[str, str] = NO_FIELDS


NO_HEADER = RecordHeader(None, 0)


@dataclass(frozen=True, slots=True)
class LogFormat:
    name: str
    shapes: tuple[str, ...]
    header: re.Pattern[str]
    prose: bool
    wrapper: bool
    prefix: bool
    json: bool
    clock: str
    """Name of the format whose lines share a clock with this one; its own name by default."""
    examples: tuple[str, ...]

    def read_header(self, text: str) -> RecordHeader:
        """Read the header of a record. A line that has the shape but does not match the expression has no fields."""
        if self.json:
            return _read_json(text)._replace(format=self.clock)
        begin = len(text) - len(text.lstrip(" \t"))
        match = self.header.match(text, begin)
        if match is None and text[begin : begin + 1] in MARKS:
            match = self.header.match(text, len(text) - len(text.lstrip(" \t" + MARKS)))
        if match is None:
            return RecordHeader(None, begin, self.clock)
        group = match.groupdict("").get
        return RecordHeader(  # positional arguments are faster: called for every event of a large log
            parse_timestamp(group("time") or group("time2", "")),
            match.end(),
            self.clock,
            group("level", ""),
            group("thread") or group("thread2", ""),
            group("logger", ""),
            group("actor") or group("host") or group("host2", ""),
            {"myid": myid} if (myid := group("myid")) else NO_FIELDS,
        )


def _read_json(text: str) -> RecordHeader:
    """Read the fields of a JSON line. The message is the whole line, so that matches in it can be shown."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return NO_HEADER
    if not isinstance(record, dict):
        return NO_HEADER

    def first(keys: Iterable[str]) -> str:
        return next((values[key] for key in keys if key in values), "")

    values = {_text(key): _text(value) for key, value in record.items() if isinstance(value, str | int | float)}
    values |= {key: _text(value["class"]) for key, value in record.items() if isinstance(value, dict) and "class" in value}
    return RecordHeader(
        timestamp=parse_timestamp(first(_TIME_KEYS)),
        message_at=0,
        level=first(_LEVEL_KEYS).upper(),
        logger=first(_LOGGER_KEYS),
        actor=values.get("node", ""),
        fields={**values, "message": first(_MESSAGE_KEYS)},
    )


def _text(value: object) -> str:
    """Replace lone surrogates, which JSON can contain and UTF-8 cannot encode."""
    return str(value).encode("utf-8", "replace").decode()


class LogFormats:
    def __init__(self, formats: Iterable[LogFormat]) -> None:
        self.all = tuple(formats)
        self._by_mode = {mode: self._compile(mode) for mode in FileMode}
        self._wrappers = tuple(format for format in self.all if format.wrapper or format.prefix)
        self.wrapper_table = _table(list(self._wrappers), shortest=True)[1]

    def _compile(self, mode: FileMode) -> tuple[tuple[LogFormat, ...], HeaderTable]:
        """Return the format of each shape, and the table that recognizes the shapes."""
        return _table([format for format in self.all if _is_for(format, mode)])

    def header_table(self, mode: FileMode) -> HeaderTable:
        return self._by_mode[mode][1]

    def format(self, mode: FileMode, number: int) -> LogFormat:
        """Return the format of a shape, by its index in the table of the mode."""
        return self._by_mode[mode][0][number]

    def read(self, mode: FileMode, number: int, text: str) -> RecordHeader:
        if mode is FileMode.PLAIN:
            return NO_HEADER
        if mode is not FileMode.WRAPPED:
            return self.format(mode, number).read_header(text)
        around, inside = self.unwrap(text)
        header = self.format(mode, number).read_header(inside)
        timestamp = header.timestamp if header.timestamp is not None else around.timestamp
        return header._replace(timestamp=timestamp, actor=header.actor or around.actor)

    def unwrap(self, line: str) -> tuple[RecordHeader, str]:
        """Split a line into the header of the log collector and the original line."""
        for format in self._wrappers:
            if format.header.match(line) is None:
                continue  # most formats: reading their headers would take much longer
            header = format.read_header(line)
            if header.timestamp is not None or format.prefix:
                return header, line[header.message_at :]
        return NO_HEADER, line

    def is_wrapped(self, line: str) -> bool:
        """Return True if the line begins with the prefix of a log collector."""
        return self.unwrap(line)[0] is not NO_HEADER


def _is_for(format: LogFormat, mode: FileMode) -> bool:
    if format.prefix:
        return False
    return (mode is FileMode.PROSE or not format.prose) and not (mode is FileMode.WRAPPED and format.wrapper)


def _table(formats: list[LogFormat], *, shortest: bool = False) -> tuple[tuple[LogFormat, ...], HeaderTable]:
    pairs = [(format, one) for format in formats for one in format.shapes]
    return tuple(format for format, _ in pairs), header_dfa.compile_shapes([one for _, one in pairs], shortest=shortest)


def parse_formats(document: Mapping[str, Any], where: str) -> list[LogFormat]:
    formats = []
    for table in document.get("format", []):
        try:
            shapes = (table["shape"],) if isinstance(table["shape"], str) else tuple(table["shape"])
            formats.append(
                LogFormat(
                    name=table["name"],
                    shapes=shapes,
                    header=re.compile(table["header"]),
                    prose=bool(table.get("prose", False)),
                    wrapper=bool(table.get("wrapper", False)),
                    prefix=bool(table.get("prefix", False)),
                    json=bool(table.get("json", False)),
                    clock=table.get("clock", table["name"]),
                    examples=tuple(table.get("examples", ())),
                )
            )
        except (KeyError, TypeError, re.error) as error:
            raise Refused(f"{where}: invalid format ({table.get('name', 'without a name')}): {error}") from error
    return formats
