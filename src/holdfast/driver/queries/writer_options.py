"""Options that a script sets on a DataStreamWriter, which offers no way to read them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from holdfast.driver.queries.triggers import MICRO_BATCH, trigger_of

_LOCATION_OPTION = "checkpointlocation"
_ASYNCHRONOUS_OPTION = "asyncprogresstrackingenabled"


class WriterOptions:
    """Options that the script has set on a DataStreamWriter, which offers no way to read them."""

    def __init__(self) -> None:
        self.location: str | None = None
        self.path: str | None = None
        self.name: str | None = None
        self.format: str | None = None
        self.mode: str | None = None
        self.trigger = MICRO_BATCH
        self.asynchronous = False

    def record_options(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if key.lower() == _LOCATION_OPTION and value is not None:
                self.location = str(value)
            elif key.lower() == "path" and value is not None:
                self.path = str(value)
            elif key.lower() == _ASYNCHRONOUS_OPTION:
                self.asynchronous = str(value).lower() == "true"


def writer_options(writer: Any) -> WriterOptions:
    """Return the options recorded for this writer."""
    options: WriterOptions = writer.__dict__.setdefault("_holdfast_notes", WriterOptions())
    return options


def record_writer_options(writer: Any) -> None:
    """Patch a DataStreamWriter class of classic Spark or of Connect to record the options of each writer."""
    _record_calls(writer, "option", lambda options, arguments: options.record_options({arguments["key"]: arguments["value"]}))
    _record_calls(writer, "options", lambda options, arguments: options.record_options(arguments.get("options", {})))
    _record_calls(writer, "queryName", lambda options, arguments: setattr(options, "name", arguments["queryName"]))
    _record_calls(writer, "format", lambda options, arguments: setattr(options, "format", arguments["source"]))
    _record_calls(writer, "outputMode", lambda options, arguments: setattr(options, "mode", arguments["outputMode"]))
    _record_calls(writer, "trigger", lambda options, arguments: setattr(options, "trigger", trigger_of(arguments)))
    for name in ("foreach", "foreachBatch"):
        _record_calls(writer, name, lambda options, arguments, name=name: setattr(options, "format", name))  # type: ignore[misc]  # mypy cannot infer a lambda with a default


def _record_calls(writer: Any, name: str, record: Callable[[WriterOptions, dict[str, Any]], None]) -> None:
    method = getattr(writer, name)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def recording(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        record(writer_options(self), signature.bind(self, *args, **kwargs).arguments)
        return result

    setattr(writer, name, recording)
