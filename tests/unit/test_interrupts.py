"""Ctrl-C that strikes where no exception can be caught ends the command all the same."""

import signal
import subprocess
import sys

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
