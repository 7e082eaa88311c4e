"""Results as a table."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.oracle.judge import UNKNOWN
from tests.oracle.results import AGREE, DISAGREE, Result


def result_table(results: Iterable[Result]) -> str:
    rows = [(result.cell.name, result.spark.verdict, result.holdfast.verdict, result.agreement) for result in results]
    return format_table(("cell", "Spark", "Holdfast", "agreement"), rows)


def summary_table(results: Sequence[Result]) -> str:
    """Return the numbers of cells by query and state store."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        for name in (f"{result.cell.program}/{result.cell.store}", "all"):
            counts.setdefault(name, Counter()).update([result.agreement, result.spark.verdict])
    order = sorted(counts, key=lambda name: (name == "all", name))
    columns = ("goes on", "fails", "wrong rows", AGREE, UNKNOWN, DISAGREE)
    rows = [(name, str(_cells(counts[name])), *(str(counts[name][column]) for column in columns)) for name in order]
    return format_table(("query/store", "cells", *columns), rows)


def disagreements(results: Iterable[Result]) -> str:
    """Return each disagreement with what Spark and Holdfast said."""
    return "".join(
        f"{result.cell.name}  [{result.folder}]\n  Spark: {result.spark.verdict}: {result.spark.detail}\n"
        f"  Holdfast: {result.holdfast.verdict}: {result.holdfast.detail}\n"
        for result in results
        if result.agreement != AGREE
    )


def format_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (heading, *rows)) for column in range(len(heading))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (heading, *rows)]
    return "".join(f"{line}\n" for line in lines)


def _cells(counts: Counter[str]) -> int:
    return counts[AGREE] + counts[UNKNOWN] + counts[DISAGREE]
