"""PID namespace of an attempt. Standard library only: the watchdog imports this.

The first process in a PID namespace is its init. When the init ends, the kernel kills every other process in the namespace, and
no process can leave the namespace. Here the init is a child of the watchdog that the kernel kills together with the watchdog.
The driver is another child of the watchdog, in the same namespace. So no descendant of the driver survives the watchdog,
whatever its environment, session or parent.

Root needs no user namespace. Another user gets one in which only this user and group exist.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable

from holdfast.runner.watchdog import proc_filesystem
from holdfast.runner.watchdog.linux_calls import (
    CLONE_NEWPID,
    CLONE_NEWUSER,
    close_descriptors_above,
    die_with_parent,
    mount_own_proc,
    set_process_name,
    unshare,
)
from holdfast.runner.watchdog.proc_filesystem import Process

_LAST_PID_FILE = "/proc/sys/kernel/ns_last_pid"
_PID_MAX_FILE = "/proc/sys/kernel/pid_max"


class NamespaceRefused(OSError):
    """The system has created no namespace, and this process is unchanged."""


class PidNamespace:
    """PID namespace for all later children of this process."""

    def __init__(self) -> None:
        """Create the namespace and its init. Raises NamespaceRefused, for example at a limit of the system, and OSError.

        After any other OSError this process may not be able to start any process: call `find_problem` before.
        """
        _unshare_pid_namespace()
        reading, self._release = os.pipe()
        pid = os.fork()
        if not pid:
            _run_init(reading)
        os.close(reading)
        self.helper: int | None = pid
        """Pid of the init until `waitpid` has returned it."""
        self.helper_exit = os.pidfd_open(pid)
        self._released = False

    def describe(self) -> dict[str, object]:
        """Return the fields that identify the namespace for the runner."""
        return {"init": self.helper}

    def prepare_driver(self) -> None:
        """Give the calling process, which is in the namespace, a /proc of the namespace. Raises OSError."""
        mount_own_proc()

    def kill(self) -> None:
        """Kill all processes in the namespace. The init ends after all others, and after the caller has reaped the driver."""
        if self.helper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.helper, signal.SIGKILL)

    def release_helper(self) -> None:
        """Let the init exit as soon as no other process is left in the namespace. Call this after the driver's end."""
        if not self._released:
            self._released = True
            with contextlib.suppress(BrokenPipeError):
                os.write(self._release, b".")

    def remove(self) -> bool:
        """Return False if a process is left in the namespace. The kernel removes the namespace with its last process."""
        return self.helper is None


class NamespaceIdentity:
    """PID namespace as other processes see it: its init and its number."""

    __slots__ = ("init", "number")

    def __init__(self, init: Process, number: int) -> None:
        self.init = init
        self.number = number

    @classmethod
    def read(cls, init: int) -> "NamespaceIdentity | None":
        """Return the namespace with this init, or None if it has ended."""
        process, number = proc_filesystem.read_process(init), proc_filesystem.read_pid_namespace(init)
        return None if process is None or number is None else cls(process, number)

    def kill(self) -> bool:
        """Kill all processes in the namespace. Return True if none is left except zombies."""
        if not self.init.send_signal(signal.SIGKILL) and not self.init.is_alive():
            return True
        # The init ends last, but it also waits until the parent of the driver has reaped the driver. If the watchdog is dead,
        # that is the init of the machine or container, and not every one reaps zombies.
        return proc_filesystem.is_exiting(self.init.pid) and not (self._has_others() or self._has_others())

    def _has_others(self) -> bool:
        return any(
            pid != self.init.pid
            and proc_filesystem.read_pid_namespace(pid) == self.number
            and proc_filesystem.read_process(pid) is not None
            for pid in proc_filesystem.list_pids()
        )


def find_problem() -> str:
    """Probe whether the system grants a PID namespace with its own /proc. Return an empty string, or the problem.

    The probe runs in a child, because a process cannot leave a user namespace, and a PID namespace without init is useless.
    Call it before the first thread starts.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _report_problem(_probe_namespace, writing)
    os.close(writing)
    with open(reading, "rb") as report:
        problem = report.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return problem or ("" if status == 0 else f"the probe ended with status {status}")


def _probe_namespace() -> None:
    _unshare_pid_namespace()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        _report_problem(mount_own_proc, writing)
    os.close(writing)
    problem = os.read(reading, 1024).decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if problem or status:
        raise OSError(errno.EPERM, problem or f"the init ended with status {status}")


def _report_problem(action: Callable[[], None], report: int) -> None:
    """Run the action in a child process, write its problem to `report`, and exit."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001 -- no code of the watchdog may continue in the child
        os.write(report, str(getattr(error, "strerror", None) or error).encode(errors="replace")[:1024] or b"unknown")
        os._exit(1)
    os._exit(0)


def _unshare_pid_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        needs_maps = _unshare(as_root=user == 0)
    except OSError as error:
        raise NamespaceRefused(error.errno, error.strerror) from error
    if needs_maps:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _unshare(*, as_root: bool) -> bool:
    """Create the namespace. Return True if this process is now in a user namespace, which has no maps yet."""
    try:
        unshare(CLONE_NEWPID)
    except PermissionError:
        # In a user namespace root would lose access to the files of other users.
        if as_root:
            raise
        unshare(CLONE_NEWUSER | CLONE_NEWPID)
        return True
    return False


def _run_init(release: int) -> None:
    """Run as the init of the namespace until the watchdog ends, or all other processes have ended after the release."""
    try:
        os.dup2(release, 0)
        close_descriptors_above(0)  # the socket and the driver's output must close with the watchdog
        die_with_parent(0)
        set_process_name(b"holdfast-init")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps all orphans
        with contextlib.suppress(OSError, ValueError):
            _spread_pids()
        if os.read(0, 1):
            while True:
                os.waitpid(-1, 0)  # fails when no child is left
    finally:
        os._exit(0)


def _spread_pids() -> None:
    """Let the pids of this namespace begin at a random number.

    Programs name files in shared directories after their pid (Java: /tmp/.java_pid…). Without this, the drivers of a machine
    would all have the same few pids.
    """
    with open(_PID_MAX_FILE) as file:
        pid_max = int(file.read())
    _write(_LAST_PID_FILE, str(300 + int.from_bytes(os.urandom(4), "big") % (pid_max // 4 * 3)))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
