"""Ctrl-C that strikes where no exception can be caught ends the command all the same."""

import signal
import subprocess
import sys
from pathlib import Path

_STRUCK = """
import signal, time
from holdfast.cli.interrupts import hear_interrupts

class Struck:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

hear_interrupts()
Struck()
for _ in range(1000):
    time.sleep(0.01)
print("went on")
"""
_OTHER = """
from holdfast.cli.interrupts import hear_interrupts

class Failing:
    def __del__(self):
        raise ValueError("something else")

hear_interrupts()
Failing()
"""

_THROUGH_EXEC = """
from holdfast.cli.interrupts import exit_interrupted

try:
    exec("raise KeyboardInterrupt")
except KeyboardInterrupt:
    exit_interrupted()
"""


def _run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_an_interruption_that_a_finalizer_swallows_is_heard() -> None:
    done = _run(_STRUCK)
    assert done.stdout == ""
    assert done.returncode == -signal.SIGINT


def test_what_else_goes_wrong_in_a_finalizer_is_shown_as_ever() -> None:
    done = _run(_OTHER)
    assert done.returncode == 0
    assert "ValueError: something else" in done.stderr


def test_an_interruption_ends_with_130_wherever_it_came_through(tmp_path: Path) -> None:
    """As a module, which is how the command is run: Python itself does otherwise there."""
    (tmp_path / "struck.py").write_text(_THROUGH_EXEC)
    done = subprocess.run([sys.executable, "-m", "struck"], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 130
