"""Every event as a row, for whoever wants to look further."""

import pyarrow

from holdfast.explain.library.timestamp import stamp
from holdfast.explain.report.answer import Answer


def events_table(answer: Answer) -> pyarrow.Table:
    files, owners, clocks = answer.gathered.files, answer.owners, answer.clocks
    rows = []
    for event in answer.gathered.events:
        at = clocks.at(event)
        rows.append(
            {
                "time": stamp(at) if at is not None else None,
                "duration_ms": event.duration_ms,
                "component": owners[event.file, event.offset].name,
                "kind": event.kind,
                "count": 1 + event.again,
                "says": event.says,
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
