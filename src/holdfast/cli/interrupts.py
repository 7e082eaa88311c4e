"""Handling of Ctrl-C at any point of a command.

Python can raise KeyboardInterrupt between any two bytecodes. Inside a finalizer, or in other code whose exceptions cannot be
caught, Python prints and drops it, and the command would continue.
"""

import _thread
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
AGAIN_S = 0.05
"""Delay before the interrupt is raised again. Raised inside the hook it would be lost again."""


def install_interrupt_hook() -> None:
    """Raise every lost KeyboardInterrupt again. Only for a process that runs one command."""
    sys.unraisablehook = _raise_again


def exit_interrupted() -> NoReturn:
    """Exit with code 130.

    Python remembers a KeyboardInterrupt that passed through `exec`, which imports use. The process would then end by a signal
    although the interrupt was caught. Another `exec` resets that.
    """
    exec("")
    sys.exit(INTERRUPTED)


def _raise_again(lost: "UnraisableHookArgs") -> None:
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(AGAIN_S, _thread.interrupt_main)
    again.daemon = True
    again.start()
