"""Ctrl-C is heard wherever it strikes.

Python raises KeyboardInterrupt between any two steps. If that is within a finalizer, or whatever else nobody can catch an
exception of, it is shown and forgotten, and the command goes on as if nobody had asked it to end.
"""

import _thread
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
AGAIN_S = 0.05
"""Not at once: that would be within this hook, where it is lost as well."""


def hear_interrupts() -> None:
    """From now on, one that is lost is raised again. For a process that is one command."""
    sys.unraisablehook = _heard


def exit_interrupted() -> NoReturn:
    """With 130, whatever was struck. Python remembers an interruption that has come through `exec`, by which classes are made
    while modules are loaded, and would end itself by a signal though it was caught. The next `exec` makes it forget."""
    exec("")
    sys.exit(INTERRUPTED)


def _heard(lost: "UnraisableHookArgs") -> None:
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(AGAIN_S, _thread.interrupt_main)
    again.daemon = True
    again.start()
