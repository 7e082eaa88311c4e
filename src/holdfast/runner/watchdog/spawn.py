"""Starting a driver, from a process with one thread. Standard library only: the watchdog imports this."""

import ctypes
import os
import signal

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.boottime_timer import now
from holdfast.runner.watchdog.json_socket import Garbage

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127

_libc = ctypes.CDLL(None, use_errno=True)


class Order:
    """What to start."""

    __slots__ = ("command", "directory", "environment", "nonce")

    def __init__(self, fields: object) -> None:
        try:
            self.command = [str(part) for part in fields["command"]]  # type: ignore[index]
            self.environment = {str(key): str(value) for key, value in fields["environment"].items()}  # type: ignore[index]
            self.directory = str(fields["directory"])  # type: ignore[index]
            self.nonce = self.environment[process_tree.VARIABLE]
        except (LookupError, TypeError, AttributeError) as error:
            raise Garbage from error
        if not self.command or not self.nonce:
            raise Garbage


def spawn(order: Order, report: int, deadline: float) -> int:
    """A fork is safe here: there is only one thread."""
    me = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    sentence = ""
    try:
        sentence = _become(order, deadline, me)
    except BaseException as error:  # noqa: BLE001 - whatever it is: nothing of the watchdog may go on in this process
        sentence = f"cannot start the driver: {error}"
    finally:
        os.write(report, sentence.encode(errors="replace")[:4096])
        os._exit(_NOT_STARTED)


def _become(order: Order, deadline: float, parent: int) -> str:
    """In the child: become the driver. Returns only if that fails, with the sentence that says why.

    It keeps the standard descriptors only: all others of the watchdog are closed by exec.
    """
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # A parent that ended before the line above sends no signal any more, but this process has another parent by now.
    if os.getppid() != parent:
        os._exit(_NOT_STARTED)
    os.dup2(1, 2)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(order.directory)
    except OSError as error:
        return f"cannot enter {order.directory}: {error.strerror}"
    if now() >= deadline:
        return "the deadline passed while the driver was being started"
    try:
        os.execvpe(order.command[0], order.command, order.environment)
    except OSError as error:
        return f"cannot run {order.command[0]}: {error.strerror}"
