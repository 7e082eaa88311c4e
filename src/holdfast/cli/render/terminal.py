"""Terminal output: colours of phases, and text with hanging indents. Imports rich, which takes time."""

import sys

from rich.console import Console
from rich.text import Text

from holdfast.cli.render.table import GAP, PHASE_STYLES, PIPED_WIDTH, UNKNOWN, UNKNOWN_STYLE, is_terminal
from holdfast.model.phase import Phase

PHASE_WIDTH = max(map(len, Phase))


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal. Without a terminal nothing is cut, so that the output can be searched."""
    terminal = is_terminal(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, emoji=False, markup=False, highlight=False, width=None if terminal else PIPED_WIDTH)


def phase_text(phase: Phase | None) -> Text:
    return Text(phase if phase is not None else UNKNOWN, style=PHASE_STYLES[phase] if phase is not None else UNKNOWN_STYLE)


def padded_phase(phase: Phase | None) -> Text:
    """Return the phase padded to a common width."""
    text = phase_text(phase)
    return Text.assemble(text, " " * (PHASE_WIDTH - len(text) + GAP))


def print_hanging(screen: Console, head: Text, text: str) -> None:
    """Print text after its head, and indent its further lines to the same column."""
    indent = head.cell_len
    lines = Text(text).wrap(screen, max(screen.width - indent, 20))
    for index, line in enumerate(lines or [Text("")]):
        line.rstrip()
        screen.print((head if index == 0 else Text(" " * indent)) + line, soft_wrap=True)
