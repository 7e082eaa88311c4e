"""Ctrl-C ends a command even at a point where no exception can be caught."""

import signal
import subprocess
import sys
from pathlib import Path

_STRUCK = """
import signal, time
from holdfast.cli.interrupts import install_interrupt_hook

class Struck:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

install_interrupt_hook()
Struck()
for _ in range(1000):
    time.sleep(0.01)
print("went on")
"""
_OTHER = """
from holdfast.cli.interrupts import install_interrupt_hook

class Failing:
    def __del__(self):
        raise ValueError("something else")

install_interrupt_hook()
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


def test_interrupt_inside_a_finalizer_is_raised_again() -> None:
    done = _run(_STRUCK)
    assert done.stdout == ""
    assert done.returncode == -signal.SIGINT


def test_other_errors_in_finalizers_are_still_printed() -> None:
    done = _run(_OTHER)
    assert done.returncode == 0
    assert "ValueError: something else" in done.stderr


def test_interrupt_exits_with_130_even_during_imports(tmp_path: Path) -> None:
    """Run the code as a module, like the command: Python handles interrupts of modules differently."""
    (tmp_path / "struck.py").write_text(_THROUGH_EXEC)
    done = subprocess.run([sys.executable, "-m", "struck"], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 130
