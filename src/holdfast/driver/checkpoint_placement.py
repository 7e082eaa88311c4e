"""Every query gets a checkpoint that its next attempt finds again.

Spark puts a query that has neither a location nor a name into a random directory, so that it would start over each time.
"""

import functools
import hashlib
import inspect
import re
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holdfast.driver.active_queries import Queries
from holdfast.driver.kafka_gate import Gate
from holdfast.driver.query_registry import Started
from holdfast.driver.stderr_log import say
from holdfast.errors import Refused

CONFIGURED = "spark.sql.streaming.checkpointLocation"
DEFAULT_FORMAT = "spark.sql.sources.default"
_OPTION = "checkpointlocation"
_PLAIN = re.compile(r"(?!\.|_holdfast|query-\d+$)[\w.=-]{1,100}")


def directory_of(name: str) -> str:
    """The name itself where it makes a directory that is nobody else's; otherwise what is plain of it, and a hash."""
    if _PLAIN.fullmatch(name):
        return name
    plain = re.sub(r"[^\w=-]+", "-", name).strip("-_")[:60]
    return f"{plain or 'query'}~{hashlib.sha256(name.encode(errors='backslashreplace')).hexdigest()[:8]}"


class Places:
    """Which directory below the root belongs to which query."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/") or root
        self._lock = threading.Lock()
        self._unnamed = 0
        self._thread: int | None = None

    def contains(self, location: str) -> bool:
        return location.rstrip("/") == self._root

    def named(self, name: str) -> str:
        return f"{self._root}/{directory_of(name)}"

    def unnamed(self) -> str:
        """By the order of starts. Several threads have no order that will be the same next time."""
        with self._lock:
            thread = threading.get_ident()
            if self._thread not in (None, thread):
                raise Refused(
                    "queries without a name are started from several threads, so which checkpoint is whose would be a matter "
                    "of luck after a restart: name them with queryName"
                )
            self._thread = thread
            self._unnamed += 1
            return f"{self._root}/query-{self._unnamed}"

    def give_back(self, place: str) -> None:
        """That query did not start. Whoever tries again gets the same."""
        with self._lock:
            if place == f"{self._root}/query-{self._unnamed}":
                self._unnamed -= 1


class _Notes:
    """What a script has said to a DataStreamWriter, which cannot be asked."""

    def __init__(self) -> None:
        self.location: str | None = None
        self.path: str | None = None
        self.name: str | None = None
        self.format: str | None = None
        self.mode: str | None = None

    def options(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if key.lower() == _OPTION and value is not None:
                self.location = str(value)
            elif key.lower() == "path" and value is not None:
                self.path = str(value)


def _notes(writer: Any) -> _Notes:
    notes: _Notes = writer.__dict__.setdefault("_holdfast_notes", _Notes())
    return notes


def take_care_of(module: ModuleType, places: Places | None, queries: Queries, started: Started, gate: Gate) -> None:
    """Change the DataStreamWriter of this module, classic Spark's or Connect's. Without places, only note what starts."""
    writer = module.DataStreamWriter
    set_option = writer.option
    _listen(writer, "option", lambda notes, said: notes.options({said["key"]: said["value"]}))
    _listen(writer, "options", lambda notes, said: notes.options(said.get("options", {})))
    _listen(writer, "queryName", lambda notes, said: setattr(notes, "name", said["queryName"]))
    _listen(writer, "format", lambda notes, said: setattr(notes, "format", said["source"]))
    _listen(writer, "outputMode", lambda notes, said: setattr(notes, "mode", said["outputMode"]))
    for name in ("foreach", "foreachBatch"):
        _listen(writer, name, lambda notes, said, name=name: setattr(notes, "format", name))  # type: ignore[misc]
    for name in ("start", "toTable"):
        setattr(writer, name, _placed(getattr(writer, name), set_option, places, queries, started, gate))


def _listen(writer: Any, name: str, note: Callable[[_Notes, dict[str, Any]], None]) -> None:
    method = getattr(writer, name)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def listening(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        note(_notes(self), signature.bind(self, *args, **kwargs).arguments)
        return result

    setattr(writer, name, listening)


def _placed(
    method: Callable[..., Any],
    set_option: Callable[..., Any],
    places: Places | None,
    queries: Queries,
    started: Started,
    gate: Gate,
) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def placed(self: Any, *args: Any, **kwargs: Any) -> Any:
        said = signature.bind(self, *args, **kwargs).arguments
        place = _place(self, said, places) if places is not None else None
        if place is not None:
            set_option(self, "checkpointLocation", place)
        notes = _notes(self)
        name = said.get("queryName") or notes.name or ""
        try:
            gate.pass_through(self, place or notes.location, f"'{name}'" if name else "without a name")
            query = method(self, *args, **kwargs)
        except BaseException:
            if places is not None and place is not None:
                places.give_back(place)
            raise
        queries.add(query)
        started.note(query, place or notes.location, *_sink(self, said, notes))
        return query

    return placed


def _place(writer: Any, said: dict[str, Any], places: Places) -> str | None:
    notes = _notes(writer)
    notes.options(said.get("options", {}))
    if notes.location is not None:
        return None
    name = said.get("queryName") or notes.name
    format = said.get("format") or notes.format or ""
    mode = said.get("outputMode") or notes.mode or "append"
    if format.lower() == "memory" and mode.lower() != "complete":
        return None  # what it has collected is gone with its process, and Spark refuses to go on from a checkpoint of it
    _mention_what_is_ignored(writer, places)
    if name:
        place = places.named(name)
        say(f"the query '{name}' keeps its checkpoint in {place}")
    else:
        place = places.unnamed()
        say(f"a query without a name keeps its checkpoint in {place}, by the order of starts; queryName makes that certain")
    return place


def _sink(writer: Any, said: dict[str, Any], notes: _Notes) -> tuple[str, str]:
    """What it writes to: the format, and the path if it has one."""
    if "tableName" in said:
        return "table", ""
    format = said.get("format") or notes.format or _session(writer).conf.get(DEFAULT_FORMAT, "parquet")
    return str(format), str(said.get("path") or notes.path or "")


def _session(writer: Any) -> Any:
    return getattr(writer, "_spark", None) or writer._session


def _mention_what_is_ignored(writer: Any, places: Places) -> None:
    """A location in Spark's configuration may be everybody's, or the script's from before Holdfast: say that it is not used."""
    configured = _session(writer).conf.get(CONFIGURED, None)
    if configured and not places.contains(configured):
        say(f"{CONFIGURED} is not used, since this job has its own place; option('checkpointLocation', …) would be")
