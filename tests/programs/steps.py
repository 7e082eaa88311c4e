"""Steps of a trial: each has a cell of the table. A step that fails ends the trial."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.errors import HoldfastError

KILL, STOP, SAVEPOINT, UPGRADE = STEPS = ("kill", "stop, resume", "savepoint, restore", "upgrade")
EXACT = "exact"
NOT_RUN = "not run"
Say = Callable[[str], None]
"""Function that prints a line of progress."""


def run_steps(steps: Mapping[str, Callable[[], str]], say: Say, prepare: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Run `prepare` and all steps, and return what each of them returned. A failure is the text of its cell."""
    cells = dict.fromkeys(steps, NOT_RUN)
    failed_step = next(iter(steps))
    try:
        prepare()
        for name, step in steps.items():
            failed_step = name
            say(f"{name} …")
            cells[name] = step()
            say(f"{name}: {cells[name]}")
    except (AssertionError, HoldfastError, OSError, subprocess.TimeoutExpired) as error:
        cells[failed_step] = f"FAILED: {' '.join(str(error).split()) or type(error).__name__}"
        say(f"{failed_step}: {cells[failed_step]}")
    return cells


def describe_refusal(stderr: str, label: str, checkpoint: Path) -> str:
    """Return the message of a refused command, with JOB and CHECKPOINT in place of the job's label and folder."""
    message = " ".join(stderr.removeprefix("holdfast: ").split())
    return f"refused: {message.replace(label, 'JOB').replace(str(checkpoint), 'CHECKPOINT')}"


def write_next_version(script: Path, directory: Path) -> Path:
    """Write the script with another version number, which the rows of its output carry."""
    text = script.read_text()
    assert text.count("VERSION = 1\n") == 1
    changed = directory / f"{script.stem}-2.py"
    changed.write_text(text.replace("VERSION = 1\n", "VERSION = 2\n"))
    return changed
