"""Start of a driver by fork and exec, from a process with one thread. Standard library only: the watchdog imports this."""

import ctypes
import os
import signal

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog.boottime_timer import boottime
from holdfast.runner.watchdog.json_socket import MalformedMessage

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127

_libc = ctypes.CDLL(None, use_errno=True)


class SpawnRequest:
    """Validated request to start a driver. Raises MalformedMessage."""

    __slots__ = ("command", "directory", "environment", "nonce")

    def __init__(self, fields: object) -> None:
        try:
            self.command = [str(part) for part in fields["command"]]  # type: ignore[index]
            self.environment = {str(key): str(value) for key, value in fields["environment"].items()}  # type: ignore[index]
            self.directory = str(fields["directory"])  # type: ignore[index]
            self.nonce = self.environment[NONCE]
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedMessage from error
        if not self.command or not self.nonce:
            raise MalformedMessage


def spawn_driver(request: SpawnRequest, report: int, deadline: float) -> int:
    """Fork and execute the command; return the child's pid. The child writes the reason of a failure to `report`.

    The fork is safe, because this process has only one thread.
    """
    watchdog = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    problem = ""
    try:
        problem = _exec_driver(request, deadline, watchdog)
    except BaseException as error:  # noqa: BLE001 - no code of the watchdog may continue in the child
        problem = f"cannot start the driver: {error}"
    finally:
        os.write(report, problem.encode(errors="replace")[:4096])
        os._exit(_NOT_STARTED)


def _exec_driver(request: SpawnRequest, deadline: float, parent: int) -> str:
    """Replace the child by the driver. Return only if that fails, with the reason.

    The driver inherits only the standard descriptors: exec closes all others.
    """
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # A parent that died before the prctl call sends no signal, but then this process already has another parent.
    if os.getppid() != parent:
        os._exit(_NOT_STARTED)
    os.dup2(1, 2)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(request.directory)
    except OSError as error:
        return f"cannot enter {request.directory}: {error.strerror}"
    if boottime() >= deadline:
        return "the deadline passed while the driver was being started"
    try:
        os.execvpe(request.command[0], request.command, request.environment)
    except OSError as error:
        return f"cannot run {request.command[0]}: {error.strerror}"
