"""Table of all programs and steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.programs.steps import NOT_RUN, STEPS

CELL_MAX = 24
"""Characters of a cell. Longer texts become notes below the table."""


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    like: str
    cells: Mapping[str, str]
    """Text of each step."""
    took_s: float

    @property
    def failed(self) -> bool:
        return any(text == NOT_RUN or text.startswith("FAILED") for text in self.cells.values())


def result_table(trials: Sequence[Trial]) -> str:
    """Return the table as text, with notes for texts that are too long for a cell."""
    notes: list[str] = []
    rows = [["program", "like Spark's example", *STEPS, "seconds"]]
    for trial in trials:
        cells = [_shorten(trial.cells[step], notes) for step in STEPS]
        rows.append([trial.name, trial.like, *cells, f"{trial.took_s:.0f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    numbered = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*lines, *numbered]) + "\n"


def _shorten(text: str, notes: list[str]) -> str:
    """Return the text itself, or its first words and the number of its note."""
    if len(text) <= CELL_MAX:
        return text
    if text not in notes:
        notes.append(text)
    return f"{text.split(':', 1)[0][: CELL_MAX - 5]} [{notes.index(text) + 1}]"
