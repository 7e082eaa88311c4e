"""Streaming sources of a query before its start, of classic Spark or of Spark Connect, numbered as in Spark's checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamingSource:
    number: int
    """Line of the source in each offsets file."""
    folder: int
    """Folder of the source in `sources`. A source that is used twice has two lines and one folder."""
    format: str
    """Format in lower case: a short name or the name of a class."""
    implementation: str
    """Java class of the source's table, or empty if it is unknown."""
    options: dict[str, str]
    name: str = ""
    """Name that the script gave the source (Spark 4.2 and later); empty without one."""


def list_streaming_sources(writer: Any) -> list[StreamingSource]:
    """Return the streaming sources of a DataStreamWriter.

    Spark Connect analyzes plans in its server. Of its queries only sources are found that the DataFrame itself reads, and not
    those of views and tables.
    """
    frame = getattr(getattr(writer, "_df", None), "_jdf", None)
    return _classic_sources(frame) if frame is not None else _connect_sources(writer)


def _classic_sources(frame: Any) -> list[StreamingSource]:
    sources: list[StreamingSource] = []
    folders: list[Any] = []
    for number, leaf in enumerate(_streaming_leaves(frame.queryExecution().analyzed())):
        folder = next((index for index, other in enumerate(folders) if leaf.equals(other)), len(folders))
        if folder == len(folders):
            folders.append(leaf)
        sources.append(_classic_source(number, folder, leaf))
    return sources


def _streaming_leaves(plan: Any) -> list[Any]:
    """Return the streaming leaves of the plan from left to right, the order in which Spark numbers them."""
    leaves = plan.collectLeaves()
    every_leaf = (leaves.apply(index) for index in range(leaves.size()))
    return [leaf for leaf in every_leaf if leaf.isStreaming()]


def _classic_source(number: int, folder: int, leaf: Any) -> StreamingSource:
    kind = str(leaf.getClass().getSimpleName())
    if kind.startswith("StreamingRelationV2"):
        options = {str(key): str(value) for key, value in dict(leaf.extraOptions().asCaseSensitiveMap()).items()}
        implementation = str(leaf.table().getClass().getName())
        return StreamingSource(number, folder, str(leaf.sourceName()).lower(), implementation, options, _given_name(leaf))
    format = str(leaf.sourceName()).lower() if kind == "StreamingRelation" else kind.lower()
    return StreamingSource(number, folder, format, "", {}, _given_name(leaf))


def _given_name(leaf: Any) -> str:
    try:
        name = leaf.sourceIdentifyingName().nameOpt()
        return str(name.get()) if name.isDefined() else ""
    except Exception:  # noqa: BLE001 -- py4j raises various errors for a method that an earlier Spark version lacks
        return ""


def _connect_sources(writer: Any) -> list[StreamingSource]:
    plan = getattr(getattr(writer, "_write_stream", None), "_child", None)
    if plan is None:
        return []
    reads = [read for read in _reads(plan.plan(writer._session.client)) if read.is_streaming]
    return [_connect_source(number, read.data_source) for number, read in enumerate(reads)]


def _connect_source(number: int, source: Any) -> StreamingSource:
    name = str(getattr(source, "source_name", ""))
    return StreamingSource(number, number, source.format.lower(), "", dict(source.options), name)


def _reads(message: Any) -> Iterator[Any]:
    """Yield the reads in a plan of Spark Connect from left to right: the fields of a relation are in this order."""
    if message.DESCRIPTOR.name == "Read":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _reads(part)
