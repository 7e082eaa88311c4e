"""Checkpoint placement: every query gets a checkpoint location that the next attempt finds again.

Spark gives a query without a location and without a name a random directory, so each attempt would start from the beginning.
"""

import functools
import hashlib
import inspect
import re
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holdfast.driver.kafka.gate import KafkaGate
from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.local_streams import find_local_session
from holdfast.driver.queries.location_gate import LocationGate
from holdfast.driver.queries.query_limits import create_temporary_checkpoint, describe_limits, needs_temporary_checkpoint
from holdfast.driver.queries.query_registry import StartedQueries
from holdfast.driver.queries.streaming_sources import StreamingSource, list_streaming_sources
from holdfast.driver.queries.writer_options import WriterOptions, record_writer_options, writer_options
from holdfast.driver.stderr_log import log_line
from holdfast.errors import Refused

CHECKPOINT_ROOT_CONF = "spark.sql.streaming.checkpointLocation"
DEFAULT_FORMAT = "spark.sql.sources.default"
_SAFE_NAME = re.compile(r"(?!\.|_holdfast|query-\d+$)[\w.=-]{1,100}")


def checkpoint_directory_name(name: str) -> str:
    """Return a unique directory name for a query name: the name itself if it is safe, else its safe part and a hash."""
    if _SAFE_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^\w=-]+", "-", name).strip("-_")[:60]
    return f"{plain or 'query'}~{hashlib.sha256(name.encode(errors='backslashreplace')).hexdigest()[:8]}"


class CheckpointPlacement:
    """Assignment of directories below the checkpoint root to queries."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/") or root
        self._lock = threading.Lock()
        self._unnamed = 0
        self._thread: int | None = None

    def is_root(self, location: str) -> bool:
        return location.rstrip("/") == self._root

    def contains(self, location: str) -> bool:
        return location.startswith(f"{self._root}/")

    def location_for_name(self, name: str) -> str:
        return f"{self._root}/{checkpoint_directory_name(name)}"

    def next_unnamed_location(self) -> str:
        """Return a location numbered by the order of starts.

        Raises Refused if several threads start unnamed queries, because their order may differ in the next attempt.
        """
        with self._lock:
            thread = threading.get_ident()
            if self._thread not in (None, thread):
                raise Refused(
                    "several threads start queries without a name, so their checkpoints could be swapped after a restart: "
                    "name each query with queryName"
                )
            self._thread = thread
            self._unnamed += 1
            return f"{self._root}/query-{self._unnamed}"

    def release(self, location: str) -> None:
        """Give back the location of a query that did not start, so that the next one gets the same number."""
        with self._lock:
            if location == f"{self._root}/query-{self._unnamed}":
                self._unnamed -= 1


class StartGates:
    """Gates before the start of a query: the claim of its checkpoint location, then the check of its Kafka offsets."""

    def __init__(self, location_gate: LocationGate, kafka_gate: KafkaGate) -> None:
        self._location_gate = location_gate
        self._kafka_gate = kafka_gate

    def wait_for_permission(self, writer: Any, location: str | None, name: str, *, temporary: bool) -> None:
        """Block until the query may start. Raises StartRefused, or SystemExit if the job is asked to stop meanwhile."""
        label = _label(name)
        used = None if temporary else location or _configured_location(writer, name)
        self._location_gate.wait_for_permission(used, label, default_filesystem=_default_filesystem(writer) if used else "")
        self._kafka_gate.wait_for_permission(writer, location, label)


def _configured_location(writer: Any, name: str) -> str | None:
    """Return the location that Spark derives from its configuration, for a query to which Holdfast gives none."""
    root = _session(writer).conf.get(CHECKPOINT_ROOT_CONF, None)
    return f"{root.rstrip('/')}/{name}" if root and name else None


def _default_filesystem(writer: Any) -> str:
    """Return Hadoop's `fs.defaultFS`, or an empty string for a separate Spark Connect server, whose JVM is out of reach."""
    session = _session(writer)
    if not hasattr(session, "_jsc"):
        session = find_local_session()
    return str(session._jsc.hadoopConfiguration().get("fs.defaultFS") or "") if session is not None else ""


def patch_writer(
    module: ModuleType,
    placement: CheckpointPlacement | None,
    queries: ActiveQueries,
    started: StartedQueries,
    gates: StartGates,
) -> None:
    """Patch the DataStreamWriter of classic Spark or of Connect. Without a placement, only record started queries."""
    writer = module.DataStreamWriter
    set_option = writer.option
    record_writer_options(writer)
    for name in ("start", "toTable"):
        setattr(writer, name, _wrap_start(getattr(writer, name), set_option, placement, queries, started, gates))


def _wrap_start(
    method: Callable[..., Any],
    set_option: Callable[..., Any],
    placement: CheckpointPlacement | None,
    queries: ActiveQueries,
    started: StartedQueries,
    gates: StartGates,
) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(self, *args, **kwargs).arguments
        options = writer_options(self)
        options.record_options(arguments.get("options", {}))
        sources = _list_sources(self)
        location = _choose_location(self, arguments, placement, sources) if placement is not None else None
        if location is not None:
            set_option(self, "checkpointLocation", location)
        temporary = placement is not None and location is not None and not placement.contains(location)
        name = arguments.get("queryName") or options.name or ""
        try:
            gates.wait_for_permission(self, location or options.location, name, temporary=temporary)
            query = method(self, *args, **kwargs)
        except BaseException:
            if placement is not None and location is not None:
                placement.release(location)
            raise
        limits = describe_limits(
            _label(name),
            sources,
            options.trigger,
            temporary_checkpoint=temporary,
            asynchronous=options.asynchronous,
            outlives_driver=queries.add(query, options.trigger).outlives_driver,
        )
        for limit in limits:
            log_line(limit)
        lasting = None if temporary else location or options.location
        sink = _describe_sink(self, arguments, options)
        started.record(query, lasting, *sink, trigger=options.trigger, note="; ".join(limits))
        return query

    return start


def _label(name: str) -> str:
    return f"'{name}'" if name else "without a name"


def _list_sources(writer: Any) -> list[StreamingSource]:
    """Return the streaming sources, or none if Spark does not report them: their limits are then unknown."""
    try:
        return list_streaming_sources(writer)
    except Exception as error:  # noqa: BLE001 -- py4j and Connect raise various errors
        log_line(f"the sources of a query are unknown ({type(error).__name__})")
        return []


def _choose_location(
    writer: Any, arguments: dict[str, Any], placement: CheckpointPlacement, sources: list[StreamingSource]
) -> str | None:
    options = writer_options(writer)
    if options.location is not None:
        return None
    name = arguments.get("queryName") or options.name
    format = arguments.get("format") or options.format or ""
    mode = arguments.get("outputMode") or options.mode or "append"
    if format.lower() == "memory" and mode.lower() != "complete":
        return None  # a memory table is lost with the process, and Spark refuses to continue its checkpoint
    _log_ignored_setting(writer, placement)
    if needs_temporary_checkpoint(writer, sources):
        return create_temporary_checkpoint()
    if name:
        location = placement.location_for_name(name)
        log_line(f"the query '{name}' uses the checkpoint {location}")
    else:
        location = placement.next_unnamed_location()
        log_line(
            f"a query without a name uses the checkpoint {location}, numbered by the order of starts; set queryName to fix it"
        )
    return location


def _describe_sink(writer: Any, arguments: dict[str, Any], options: WriterOptions) -> tuple[str, str]:
    """Return the output format, and the path or an empty string."""
    if "tableName" in arguments:
        return "table", ""
    format = arguments.get("format") or options.format or _session(writer).conf.get(DEFAULT_FORMAT, "parquet")
    return str(format), str(arguments.get("path") or options.path or "")


def _session(writer: Any) -> Any:
    return getattr(writer, "_spark", None) or writer._session


def _log_ignored_setting(writer: Any, placement: CheckpointPlacement) -> None:
    """Log that a checkpoint root in Spark's configuration has no effect: other jobs may share it."""
    configured = _session(writer).conf.get(CHECKPOINT_ROOT_CONF, None)
    if configured and not placement.is_root(configured):
        log_line(
            f"{CHECKPOINT_ROOT_CONF} is ignored, because Holdfast gives this job its own checkpoint; to choose a location "
            "yourself, set option('checkpointLocation', …) on the query"
        )
