"""What the lines of each system begin with, and what stands there. Declared in `library/formats.toml`, and in users' files."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import Refused
from holdfast.explain.event import NOTHING
from holdfast.explain.library.timestamp import Moment, moment
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.header_dfa import Shapes
from holdfast.explain.scan.record_scan import Mode

_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "datetime")
_MESSAGE_KEYS = ("msg", "message", "event", "text", "log")
_LEVEL_KEYS = ("level", "severity", "log.level", "levelname")
_LOGGER_KEYS = ("logger", "logger_name", "log.logger", "component", "name")


class Header(NamedTuple):
    """What the beginning of a record says."""

    moment: Moment | None
    message_at: int
    """Where the message begins, in characters."""
    format: str = ""
    level: str = ""
    thread: str = ""
    logger: str = ""
    actor: str = ""
    """Who it is about, where the line itself says so."""
    fields: Mapping[str, str] = NOTHING


NO_HEADER = Header(None, 0)


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    shapes: tuple[str, ...]
    header: re.Pattern[str]
    prose: bool
    wrapper: bool
    json: bool
    clock: str
    """The format whose lines are written by the same program, if it is another one."""
    examples: tuple[str, ...]

    def read(self, text: str) -> Header:
        """Of a record's text. A line may have the shape and nothing else: then nothing is known of it."""
        if self.json:
            return _of_json(text)._replace(format=self.clock)
        begin = len(text) - len(text.lstrip(" \t"))
        match = self.header.match(text, begin)
        if match is None:
            return Header(None, begin, self.clock)
        said = match.groupdict("").get
        return Header(  # by position: every event of a large log comes by here
            moment(said("time", "")),
            match.end(),
            self.clock,
            said("level", ""),
            said("thread") or said("thread2", ""),
            said("logger", ""),
            said("actor") or said("host", ""),
            {"myid": myid} if (myid := said("myid")) else NOTHING,
        )


def _of_json(text: str) -> Header:
    """The message stays in the line, so that what is found there can be shown; only what surrounds it is taken out."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return NO_HEADER
    if not isinstance(record, dict):
        return NO_HEADER

    def first(keys: Iterable[str]) -> str:
        return next((told[key] for key in keys if key in told), "")

    told = {_text(key): _text(value) for key, value in record.items() if isinstance(value, str | int | float)}
    return Header(
        moment=moment(first(_TIME_KEYS)),
        message_at=0,
        level=first(_LEVEL_KEYS).upper(),
        logger=first(_LOGGER_KEYS),
        actor=told.get("node", ""),
        fields={**told, "message": first(_MESSAGE_KEYS)},
    )


def _text(value: object) -> str:
    """Half a pair of surrogates, which JSON can say, is no text that could be written anywhere."""
    return str(value).encode("utf-8", "replace").decode()


class Formats:
    def __init__(self, formats: Iterable[Format]) -> None:
        self.all = tuple(formats)
        self._of_mode = {mode: self._chosen(mode) for mode in Mode}
        self._wrappers = _table([format for format in self.all if format.wrapper])

    def _chosen(self, mode: Mode) -> tuple[tuple[Format, ...], Shapes]:
        """A format for each shape, and the table to find them by."""
        return _table([format for format in self.all if _is_for(format, mode)])

    def shapes(self, mode: Mode) -> Shapes:
        return self._of_mode[mode][1]

    @property
    def wrappers(self) -> Shapes:
        return self._wrappers[1]

    def format(self, mode: Mode, number: int) -> Format:
        """`number`: of the shape that a record begins with."""
        return self._of_mode[mode][0][number]

    def read(self, mode: Mode, number: int, text: str) -> Header:
        if mode is Mode.PLAIN:
            return NO_HEADER
        if mode is not Mode.WRAPPED:
            return self.format(mode, number).read(text)
        around, inside = self.unwrapped(text)
        header = self.format(mode, number).read(inside)
        known = header.moment if header.moment is not None else around.moment
        return header._replace(moment=known, actor=header.actor or around.actor)

    def unwrapped(self, line: str) -> tuple[Header, str]:
        """What was put before a line, and the line."""
        for format in self._wrappers[0]:
            header = format.read(line)
            if header.moment is not None:
                return header, line[header.message_at :]
        return NO_HEADER, line


def _is_for(format: Format, mode: Mode) -> bool:
    return (mode is Mode.PROSE or not format.prose) and not (mode is Mode.WRAPPED and format.wrapper)


def _table(formats: list[Format]) -> tuple[tuple[Format, ...], Shapes]:
    pairs = [(format, one) for format in formats for one in format.shapes]
    return tuple(format for format, _ in pairs), header_dfa.compiled([one for _, one in pairs])


def formats_in(document: Mapping[str, Any], where: str) -> list[Format]:
    found = []
    for table in document.get("format", []):
        try:
            shapes = (table["shape"],) if isinstance(table["shape"], str) else tuple(table["shape"])
            found.append(
                Format(
                    name=table["name"],
                    shapes=shapes,
                    header=re.compile(table["header"]),
                    prose=bool(table.get("prose", False)),
                    wrapper=bool(table.get("wrapper", False)),
                    json=bool(table.get("json", False)),
                    clock=table.get("clock", table["name"]),
                    examples=tuple(table.get("examples", ())),
                )
            )
        except (KeyError, TypeError, re.error) as error:
            raise Refused(f"{where}: a format that cannot be used ({table.get('name', 'without a name')}): {error}") from error
    return found
