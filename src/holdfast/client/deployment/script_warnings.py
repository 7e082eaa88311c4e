"""Warnings about mistakes that a script shows before it runs: sources that cannot be resumed, refused Kafka options, modules
that are not stored with the job.

Of sources, only literal arguments of a chain that begins with `readStream` are judged, so a warning is always true of the
line it names.
"""

import ast
import itertools
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.client.callbacks import Callbacks
from holdfast.client.deployment.job_request import JobRequest
from holdfast.client.deployment.missing_modules import find_missing_modules
from holdfast.driver.declarative_pipeline import is_pipeline
from holdfast.driver.queries.query_limits import NOT_RESUMABLE
from holdfast.driver_protocol.kafka_messages import OFFSET_CHECK_NAME
from holdfast.kafka.check.client_options import find_unsafe_options
from holdfast.model.job_settings import GUARDS_OFF

_READER_METHODS = frozenset({"format", "option", "options", "schema", "name", "load"})
"""Methods of a DataStreamReader. A DataFrame, which `load` returns, has none of these methods."""
_PARAMETERS = {"format": ("source",), "option": ("key", "value"), "load": ("path", "format", "schema")}
"""Positional parameters of the methods that have some."""

_INTEGER_BITS_MAX = 64


@dataclass(frozen=True, slots=True)
class _Argument:
    value: str | None
    """Text that Spark receives; None if the argument is not a literal."""
    line: int


@dataclass(slots=True)
class _Reader:
    """Format and options of one DataStreamReader."""

    format: _Argument | None = None
    options: dict[str, _Argument] = field(default_factory=dict)
    """Options by their names in lower case. A later call has replaced the values of earlier calls."""


def report_script_warnings(
    request: JobRequest, conf: Mapping[str, str], callbacks: Callbacks, *, keeps_files: bool = False
) -> None:
    """Send a note about each warning. `conf` has the settings of the job. A script that cannot be read has no warnings.

    With `keeps_files`, the job has other files than those of the request, so modules that may be missing are unknown."""
    if is_pipeline(request.script.name):
        return
    try:
        source = request.script.read_bytes()
    except OSError:
        return
    for warning in find_script_warnings(source, request.script.name, conf):
        callbacks.note(warning)
    if not keeps_files:
        for line, problem in find_missing_modules(_parse(source), request.script, request.py_files):
            callbacks.note(f"{request.script.name}, line {line}: {problem}")


def find_script_warnings(source: bytes, file: str, conf: Mapping[str, str]) -> list[str]:
    """Return a sentence about each mistake in a Python script, ordered by line. A script that is not Python has none."""
    checks_offsets = OFFSET_CHECK_NAME not in conf.get(GUARDS_OFF, "").replace(",", " ").split()
    found = {
        warning
        for reader in _find_readers(_parse(source))
        for warning in (*_check_format(reader), *(_check_kafka_options(reader) if checks_offsets else ()))
    }
    return [f"{file}, line {line}: {problem}" for line, problem in sorted(found)]


def _check_format(reader: _Reader) -> Iterator[tuple[int, str]]:
    if reader.format is not None and (reader.format.value or "").lower() in NOT_RESUMABLE:
        yield (
            reader.format.line,
            f"the source '{reader.format.value}' cannot be resumed: rows that arrive while the job restarts are lost, and a "
            "query that reads only such sources gets a temporary checkpoint, unless the script names a checkpointLocation; "
            "use a source that Spark can read again, such as Kafka or files",
        )


def _check_kafka_options(reader: _Reader) -> Iterator[tuple[int, str]]:
    if reader.format is None or (reader.format.value or "").lower() != "kafka":
        return
    for name, option in reader.options.items():
        if option.value is not None:
            for problem in find_unsafe_options({name: option.value}):
                yield option.line, f"Holdfast will not start a query with this Kafka source: {problem}"


def _parse(source: bytes) -> ast.AST:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return ast.Module([], [])


def _find_readers(tree: ast.AST) -> Iterator[_Reader]:
    """Yield a reader for each chain of calls that begins with `readStream`."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):  # breadth first, so the last call of a chain comes before the calls inside it
        if isinstance(node, ast.Call) and node not in inner:
            links = _unroll_chain(node)
            inner.update(link for _, link in links)
            reader = _Reader()
            for method, call in _reader_calls(links):
                _apply_call(reader, method, call)
            yield reader


def _unroll_chain(last: ast.Call) -> list[tuple[str, ast.AST]]:
    """Return (method or attribute, node) for each link of a chain, the first link first."""
    links: list[tuple[str, ast.AST]] = []
    node: ast.expr = last
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            links.append((node.func.attr, node))
            node = node.func.value
        elif isinstance(node, ast.Attribute):
            links.append((node.attr, node))
            node = node.value
        else:
            return links[::-1]


def _reader_calls(links: list[tuple[str, ast.AST]]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls on the DataStreamReader of a chain; none if the chain has no `readStream`."""
    names = [name for name, _ in links]
    first = names.index("readStream") + 1 if "readStream" in names else len(names)
    for name, node in links[first:]:
        if name not in _READER_METHODS or not isinstance(node, ast.Call):
            return
        yield name, node


def _apply_call(reader: _Reader, method: str, call: ast.Call) -> None:
    line = call.func.end_lineno or call.lineno
    arguments = _bind(_PARAMETERS.get(method, ()), call, line)
    if method in ("format", "load"):
        reader.format = arguments.pop("source" if method == "format" else "format", reader.format)
    if method == "option":
        key = arguments.get("key")
        arguments = {key.value: arguments["value"]} if key is not None and key.value and "value" in arguments else {}
    if any(keyword.arg is None for keyword in call.keywords):
        reader.options.clear()  # `**options` may replace any of them
    if method in ("option", "options", "load"):
        reader.options.update({name.lower(): value for name, value in arguments.items()})


def _bind(parameters: tuple[str, ...], call: ast.Call, line: int) -> dict[str, _Argument]:
    """Return the arguments of a call by name. Positions after `*arguments` are unknown, so they are left out."""
    positional = itertools.takewhile(lambda value: not isinstance(value, ast.Starred), call.args)
    named = [*zip(parameters, positional, strict=False), *((keyword.arg, keyword.value) for keyword in call.keywords)]
    return {name: _Argument(_literal(value), line) for name, value in named if name is not None}


def _literal(value: ast.expr) -> str | None:
    """Return a literal as Spark receives it; None for any other expression."""
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str | bool | int):
        return None
    if isinstance(value.value, int) and value.value.bit_length() > _INTEGER_BITS_MAX:
        return None  # Python refuses to convert very long ones
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)
