"""A sink by the name of its kind, for scripts. Nothing here needs pytest or a server."""

from typing import Any

from holdfast.sinks import parquet, postgres


def sink(kind: str, output: str) -> Any:
    return parquet(output) if kind == "parquet" else postgres("windows", dsn=output)
