"""Render the events as a Parquet table, one row per event."""

import pyarrow

from holdfast.explain.library.timestamp import format_timestamp
from holdfast.explain.report.answer import Answer


def events_table(answer: Answer) -> pyarrow.Table:
    files, components, clocks = answer.scan.files, answer.components, answer.clocks
    rows = []
    for event in answer.scan.events:
        at = clocks.event_ms(event)
        rows.append(
            {
                "time": format_timestamp(at) if at is not None else None,
                "duration_ms": event.duration_ms,
                "component": components[event.file, event.offset].name,
                "kind": event.kind,
                "count": 1 + event.repetitions.total,
                "says": event.description,
                "level": event.level,
                "file": files[event.file],
                "offset": event.offset,
                "line": event.line,
                "text": event.text,
                "fields": sorted(event.fields.items()),
            }
        )
    return pyarrow.Table.from_pylist(rows, schema=SCHEMA)


SCHEMA = pyarrow.schema(
    [
        ("time", pyarrow.string()),
        ("duration_ms", pyarrow.int64()),
        ("component", pyarrow.string()),
        ("kind", pyarrow.string()),
        ("count", pyarrow.int64()),
        ("says", pyarrow.string()),
        ("level", pyarrow.string()),
        ("file", pyarrow.string()),
        ("offset", pyarrow.int64()),
        ("line", pyarrow.int64()),
        ("text", pyarrow.string()),
        ("fields", pyarrow.map_(pyarrow.string(), pyarrow.string())),
    ]
)
