"""Start of a driver by fork and exec, from a process with one thread. Standard library only: the watchdog imports this."""

import os
import signal
from collections.abc import Callable

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog.boottime_timer import boottime
from holdfast.runner.watchdog.json_socket import MalformedMessage
from holdfast.runner.watchdog.linux_calls import die_with_parent

_NOT_STARTED = 127


class SpawnRequest:
    """Validated request to start a driver. Raises MalformedMessage."""

    __slots__ = ("command", "directory", "environment", "nonce")

    def __init__(self, fields: object) -> None:
        try:
            self.command = [str(part) for part in fields["command"]]  # type: ignore[index]  # a wrong type raises TypeError
            self.environment = {str(key): str(value) for key, value in fields["environment"].items()}  # type: ignore[index]  # a wrong type raises TypeError
            self.directory = str(fields["directory"])  # type: ignore[index]  # a wrong type raises TypeError
            self.nonce = self.environment[NONCE]
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedMessage from error
        if not self.command or not self.nonce:
            raise MalformedMessage


def spawn_driver(request: SpawnRequest, deadline: float, *, prepare: Callable[[], None] | None) -> tuple[int, int]:
    """Fork and execute the command. Return the child's pid, and a pipe to which the child writes the reason of a failure.

    The child calls `prepare` first. The fork is safe, because this process has only one thread.
    """
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid:
        os.close(writing)
        return pid, reading
    problem = ""
    try:
        os.close(reading)
        die_with_parent(writing)
        if prepare is not None:
            prepare()
        problem = _exec_driver(request, deadline)
    except OSError as error:
        problem = f"cannot start a process: {error.strerror}"
    except BaseException as error:  # noqa: BLE001 -- no code of the watchdog may continue in the child
        problem = f"cannot start the driver: {error}"
    finally:
        os.write(writing, problem.encode(errors="replace")[:4096])
        os._exit(_NOT_STARTED)


def _exec_driver(request: SpawnRequest, deadline: float) -> str:
    """Replace the child by the driver. Return only if that fails, with the reason.

    The driver inherits only the standard descriptors: exec closes all others.
    """
    os.setsid()
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
