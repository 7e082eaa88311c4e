"""What people see: colours for phases, and tables that fit."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from holdfast.model.phase import Phase

UNKNOWN = "?"
GAP = 2
PHASE_WIDTH = max(map(len, Phase))
BESIDE_WIDTH_MIN = 130
"""On a narrower terminal, remarks stand below the line that they belong to."""
REMARK_WIDTH_MIN = 45
PIPED_WIDTH = 100_000

_COLOURS = {
    Phase.PENDING: "yellow",
    Phase.STARTING: "cyan",
    Phase.RUNNING: "green",
    Phase.BACKOFF: "yellow",
    Phase.STOPPING: "cyan",
    Phase.PARKED: "bold magenta",
    Phase.QUARANTINED: "bold red",
    Phase.FINISHED: "dim",
    Phase.FAILED: "red",
    Phase.CANCELLED: "dim",
}


def is_terminal(stream: TextIO | None) -> bool:
    """A stream that was closed before we were started is None."""
    return stream is not None and stream.isatty()


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; without one nothing is cut, because somebody will search it."""
    terminal = is_terminal(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, emoji=False, markup=False, highlight=False, width=None if terminal else PIPED_WIDTH)


def phase_text(phase: Phase | None) -> Text:
    return Text(phase if phase is not None else UNKNOWN, style=_COLOURS[phase] if phase is not None else "bold red")


def padded_phase(phase: Phase | None) -> Text:
    """So that what follows stands in line."""
    text = phase_text(phase)
    return Text.assemble(text, " " * (PHASE_WIDTH - len(text) + GAP))


@dataclass(frozen=True, slots=True)
class Column:
    header: str
    cells: Sequence[Text | str]
    right: bool = False
    rank: int = 0
    """Where there is no room, the column with the highest rank is left out first; 0 stays."""
    width_max: int | None = None
    """On a terminal."""

    def cell(self, row: int) -> Text:
        """A copy. The header is in the row before the first."""
        if row < 0:
            return Text(self.header, style="dim")
        cell = self.cells[row]
        return Text(cell) if isinstance(cell, str) else cell.copy()


def print_table(console: Console, columns: Sequence[Column], remarks: Column) -> None:
    """Remarks stand at the end of each line if there is room, otherwise below it, and are cut at the edge of a terminal."""
    beside = console.width >= BESIDE_WIDTH_MIN
    columns = _fitting(columns, console.width - (REMARK_WIDTH_MIN if beside else 0))
    widths = [_width(column, console.width) for column in columns]
    indent = sum(width + GAP for width in widths) if beside else GAP
    for row in range(-1, len(remarks.cells)):
        line, remark = Text(no_wrap=True), remarks.cell(row)
        for column, width in zip(columns, widths, strict=True):
            line.append_text(_padded(column.cell(row), width, right=column.right)).append(" " * GAP)
        remark.truncate(console.width - indent, overflow="ellipsis")
        if beside:
            line.append_text(remark)
        _print_line(console, line)
        if not beside and row >= 0 and remark:
            _print_line(console, Text(" " * indent) + remark)


def _padded(cell: Text, width: int, *, right: bool) -> Text:
    cell.truncate(width, overflow="ellipsis")
    padding = Text(" " * (width - cell.cell_len))
    return padding + cell if right else cell + padding


def _print_line(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True)


def _fitting(columns: Sequence[Column], width: int) -> list[Column]:
    kept = list(columns)
    while sum(_width(column, width) + GAP for column in kept) > width + GAP:
        if not (optional := [column for column in kept if column.rank]):
            break
        kept.remove(max(optional, key=lambda column: column.rank))
    return kept


def _width(column: Column, width: int) -> int:
    cells = (cell if isinstance(cell, str) else cell.plain for cell in column.cells)
    widest = max(map(cell_len, (column.header, *cells)))
    if column.width_max is not None and width < PIPED_WIDTH:
        return min(widest, max(column.width_max, len(column.header)))
    return widest


def print_hanging(screen: Console, head: Text, text: str) -> None:
    """The text beside its head, and its other lines below where it began."""
    indent = head.cell_len
    lines = Text(text).wrap(screen, max(screen.width - indent, 20))
    for index, line in enumerate(lines or [Text("")]):
        line.rstrip()
        screen.print((head if index == 0 else Text(" " * indent)) + line, soft_wrap=True)
