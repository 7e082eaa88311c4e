"""Rows of inputs and outputs, and multisets of rows that are compared without regard to order."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
Result = Counter[str]
"""Number of occurrences of each row. A row is a JSON text with sorted keys."""

VERSION = "version"
"""Column with the version of the script that wrote a row. It is not part of a result."""


def to_result(rows: Iterable[Mapping[str, Any]]) -> Result:
    return Counter(
        json.dumps({key: value for key, value in row.items() if key != VERSION and value is not None}, sort_keys=True)
        for row in rows
    )


def describe_difference(expected: Result, actual: Result) -> str:
    """Return a sentence about rows that are missing and rows that are too many, with an example of each."""
    parts = [
        f"{sum(rows.values())} rows {what} (such as {min(rows)})"
        for what, rows in (("missing", expected - actual), ("too many", actual - expected))
        if rows
    ]
    return "; ".join(parts) or "no difference"
