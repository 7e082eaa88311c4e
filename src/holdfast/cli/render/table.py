"""Tables that fit the terminal. They import rich only to measure or cut text that needs it."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from holdfast.model.phase import Phase

UNKNOWN = "?"
GAP = 2
BESIDE_WIDTH_MIN = 130
"""On a narrower terminal, remarks are printed below their line."""
REMARK_WIDTH_MIN = 45
PIPED_WIDTH = 100_000
"""Width without a terminal: nothing is cut, so that the output can be searched."""

PHASE_STYLES = {
    Phase.PENDING: "yellow",
    Phase.SCHEDULED: "dim",
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
UNKNOWN_STYLE = "bold red"
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def is_terminal(stream: TextIO | None) -> bool:
    """Return True for a terminal. The stream is None if it was closed before the process started."""
    return stream is not None and stream.isatty()


def screen_width() -> int:
    """Return the width of the terminal on stdout, or `PIPED_WIDTH` without one."""
    if not is_terminal(sys.stdout):
        return PIPED_WIDTH
    import shutil

    return shutil.get_terminal_size().columns


def style_text(text: str, style: str) -> str:
    """Add the escape sequences of a style, such as `bold red`, if stdout is a terminal that shows colours."""
    if not style or not text or not is_terminal(sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{';'.join(str(_CODES[word]) for word in style.split())}m{text}\033[0m"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: str = ""

    def fit(self, width: int, *, right: bool = False) -> str:
        """Return the styled text, cut and padded to a width."""
        text = shorten(self.text, width)
        padding = " " * (width - text_width(text))
        return padding + style_text(text, self.style) if right else style_text(text, self.style) + padding


def phase_cell(phase: Phase | None) -> Cell:
    return Cell(phase, PHASE_STYLES[phase]) if phase is not None else Cell(UNKNOWN, UNKNOWN_STYLE)


def text_width(text: str) -> int:
    """Return the width of a text in terminal cells."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int) -> str:
    """Cut text to a width in terminal cells, with an ellipsis at its end."""
    if text_width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1) + "…"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table."""

    header: str
    cells: Sequence[Cell | str]
    right: bool = False
    rank: int = 0
    """Order in which columns are dropped if the terminal is too narrow: the highest rank first, 0 never."""
    width_max: int | None = None
    """Limit on a terminal; None for no limit."""

    def cell(self, row: int) -> Cell:
        """Return a cell; row -1 is the header."""
        if row < 0:
            return Cell(self.header, "dim")
        cell = self.cells[row]
        return Cell(cell) if isinstance(cell, str) else cell


def format_table(columns: Sequence[TableColumn], remarks: TableColumn, screen_width: int) -> list[str]:
    """Return the lines of a table, with remarks at the end of each line, or below it if the terminal is narrow."""
    beside = screen_width >= BESIDE_WIDTH_MIN
    columns = _drop_columns(columns, screen_width - (REMARK_WIDTH_MIN if beside else 0))
    widths = [_column_width(column, screen_width) for column in columns]
    indent = sum(width + GAP for width in widths) if beside else GAP
    lines: list[str] = []
    for row in range(-1, len(remarks.cells)):
        cells = (column.cell(row).fit(width, right=column.right) for column, width in zip(columns, widths, strict=True))
        line = "".join(cell + " " * GAP for cell in cells)
        remark = remarks.cell(row)
        text = style_text(shorten(remark.text, screen_width - indent), remark.style)
        lines.append((line + text if beside else line).rstrip())
        if not beside and row >= 0 and text:
            lines.append(" " * indent + text)
    return lines


def _drop_columns(columns: Sequence[TableColumn], width: int) -> list[TableColumn]:
    remaining = list(columns)
    while sum(_column_width(column, width) + GAP for column in remaining) > width + GAP:
        if not (optional := [column for column in remaining if column.rank]):
            break
        remaining.remove(max(optional, key=lambda column: column.rank))
    return remaining


def _column_width(column: TableColumn, width: int) -> int:
    texts = (cell if isinstance(cell, str) else cell.text for cell in column.cells)
    widest = max(map(text_width, (column.header, *texts)))
    if column.width_max is not None and width < PIPED_WIDTH:
        return min(widest, max(column.width_max, len(column.header)))
    return widest
