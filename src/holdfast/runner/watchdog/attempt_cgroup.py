"""Cgroup of an attempt, in the cgroup v2 hierarchy. Standard library only: the watchdog imports this.

A child process belongs to the cgroup of its parent, whatever its environment and session, and remains in it when its parent
ends. A write to `cgroup.kill` (Linux 5.14) kills all processes in a cgroup and below it, also those that are being forked.

The cgroup is a child of the watchdog's own cgroup, so all limits of that one still hold. It gets no controllers: the kernel
does not allow them while the parent contains processes.

The kernel does not kill a cgroup together with a process. So another child of the watchdog, the killer, waits until the
watchdog ends and then kills the cgroup, also if it was stopped. Runner and agent do the same if the killer is dead.
"""

import contextlib
import errno
import os
import signal
import time

from holdfast.runner.watchdog.boottime_timer import boottime
from holdfast.runner.watchdog.cgroup_location import find_own_cgroup
from holdfast.runner.watchdog.linux_calls import close_descriptors_above, die_with_parent, set_process_name
from holdfast.runner.watchdog.proc_filesystem import Process, list_pids, read_cgroup, read_process

_PREFIX = "holdfast-"
"""Beginning of the names of cgroups. The pid and the start time of the process that created the cgroup follow."""
LEFTOVER_AGE_S = 60.0
"""Age from which an empty cgroup of a dead watchdog is a leftover. A watchdog in another PID namespace seems to be dead too,
and its cgroup is empty until its driver has entered."""
_PROBE_TIMEOUT_S = 5.0
_ENTERED = b"entered"


class CgroupRefused(OSError):
    """The system has created no cgroup that can be used."""


class AttemptCgroup:
    """Cgroup for the driver, and its killer."""

    def __init__(self, parent: str) -> None:
        """Create the cgroup below the cgroup with the directory `parent`, and start the killer.

        Raises CgroupRefused, for example at a limit of the system, and OSError.
        """
        self._path = _create(parent)
        try:
            self._number = os.stat(self._path).st_ino
            self._procs_file = os.open(f"{self._path}/cgroup.procs", os.O_WRONLY)
            self._kill_file = os.open(f"{self._path}/cgroup.kill", os.O_WRONLY)
            reading, self._release = os.pipe()
            pid = os.fork()
        except OSError:
            _remove(self._path)
            raise
        if not pid:
            _run_killer(reading, self._kill_file)
        os.close(reading)
        self.helper: int | None = pid
        """Pid of the killer until `waitpid` has returned it."""
        self.helper_exit = os.pidfd_open(pid)

    def describe(self) -> dict[str, object]:
        """Return the fields that identify the cgroup for the runner."""
        return {"cgroup": [self._path, self._number]}

    def prepare_driver(self) -> None:
        """Move the calling process into the cgroup. Raises OSError."""
        os.write(self._procs_file, b"0")

    def kill(self) -> None:
        """Kill all processes in the cgroup, and the killer."""
        with contextlib.suppress(OSError):  # the runner has removed the cgroup
            os.write(self._kill_file, b"1")
        if self.helper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.helper, signal.SIGKILL)

    def release_helper(self) -> None:
        """Let the killer exit if no process is left in the cgroup. Call this repeatedly after the driver's end."""
        with contextlib.suppress(OSError):  # no descriptors: the next call tries again
            if self._release >= 0 and _is_empty(self._path):
                os.close(self._release)
                self._release = -1

    def remove(self) -> bool:
        """Remove the cgroup. Return False if a process is left in it. Raises OSError."""
        if not _is_empty(self._path):
            return False
        _remove(self._path)
        return _is_empty(self._path)


class CgroupIdentity:
    """Cgroup as other processes see it: its directory and its inode number, which the kernel never uses again until reboot."""

    __slots__ = ("number", "path")

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number

    def kill(self) -> bool:
        """Kill all processes in the cgroup. Return True if none is left; the cgroup is then removed.

        A later cgroup with the same path is left alone. The directory may also be missing because this process does not see
        the hierarchy, for example in another mount namespace than the watchdog.
        """
        try:
            directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR) and self._kill_hidden()
        try:
            return os.fstat(directory).st_ino != self.number or self._kill_opened(f"/proc/self/fd/{directory}")
        finally:
            os.close(directory)

    def _kill_hidden(self) -> bool:
        """Kill the processes that /proc shows in a cgroup of this name. Return True if two scans in a row have found none."""
        name = os.path.basename(self.path)
        if _read_creator(name) is None:
            return True
        processes = _list_processes(name) or _list_processes(name)
        for process in processes:
            process.send_signal(signal.SIGKILL)
        return not processes

    def _kill_opened(self, directory: str) -> bool:
        """Kill through the open directory: it never leads to another cgroup."""
        try:
            if not _is_empty(directory):
                _write(f"{directory}/cgroup.kill", b"1")
                return False
            _remove(self.path)
            return _is_empty(directory)  # a driver that has just entered it prevents the removal
        except OSError:
            return False


def find_problem() -> str:
    """Probe whether this process can use a cgroup for an attempt. Return an empty string, or the problem.

    The probe creates a cgroup, moves a process into it, kills the cgroup and removes it. It forks, so call it before the first
    thread starts.
    """
    try:
        probe_cgroup(find_own_cgroup())
    except OSError as error:
        return describe_error(error)
    return ""


def describe_error(error: OSError) -> str:
    problem = error.strerror or str(error)
    return os.fsencode(problem).decode(errors="replace")  # a path may be no text, and no record may contain it then


def probe_cgroup(parent: str) -> None:
    """Do the probe below the cgroup with the directory `parent`. Raises OSError. Nothing is left behind."""
    path = _create(parent)
    try:
        _kill_test_process(path)
    finally:
        _remove(path)


def remove_leftovers(parent: str, *, age_s_min: float = LEFTOVER_AGE_S) -> None:
    """Remove the empty cgroups that dead watchdogs have left below the cgroup with the directory `parent`.

    `age_s_min` is their minimum age: a watchdog creates its cgroup when it starts.
    """
    try:
        names = os.listdir(parent)
    except OSError:
        return
    started_before = (boottime() - age_s_min) * os.sysconf("SC_CLK_TCK")
    for name in names:
        creator = _read_creator(name)
        if creator is not None and creator.started < started_before:
            with contextlib.suppress(OSError):  # a leftover of another user prevents nothing
                if not creator.is_alive() and _is_empty(f"{parent}/{name}"):
                    _remove(f"{parent}/{name}")


def _create(parent: str) -> str:
    """Create a cgroup that `cgroup.kill` can kill, and return its directory. Raises CgroupRefused."""
    creator = read_process(os.getpid())
    if creator is None:
        raise CgroupRefused(errno.ESRCH, "/proc does not show this process")
    path = f"{parent}/{_PREFIX}{creator.pid}-{creator.started}"
    try:
        os.mkdir(path)
    except OSError as error:
        raise CgroupRefused(error.errno, f"cannot create a cgroup in {parent}: {error.strerror}") from error
    if not os.path.exists(f"{path}/cgroup.kill"):
        _remove(path)
        raise CgroupRefused(errno.ENOENT, "the kernel has no cgroup.kill, which needs Linux 5.14")
    return path


def _read_creator(name: str) -> Process | None:
    """Return the process that created the cgroup with this name, or None if it is no cgroup of an attempt."""
    pid, _, started = name.removeprefix(_PREFIX).partition("-")
    if not name.startswith(_PREFIX) or not (pid.isdecimal() and started.isdecimal()):
        return None
    return Process(int(pid), int(started), parent=0)


def _list_processes(name: str) -> list[Process]:
    """Return the processes in the cgroup with this name, or below it, wherever it is."""
    pids = (pid for pid in list_pids() if name in (read_cgroup(pid) or "").split("/"))
    return [process for process in map(read_process, pids) if process is not None]


def _is_empty(directory: str) -> bool:
    """Return True if the cgroup contains no process except zombies, or is removed."""
    try:
        with open(f"{directory}/cgroup.events", "rb") as file:
            return b"populated 0" in file.read()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return True
        raise


def _remove(path: str) -> None:
    """Remove an empty cgroup, and the cgroups that a driver may have created in it."""
    with contextlib.suppress(OSError):
        for directory, _, _ in os.walk(path, topdown=False):
            os.rmdir(directory)


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _kill_test_process(path: str) -> None:
    """Start a process in the cgroup and kill it with the cgroup. Raises OSError."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_test_process(path, reading, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:
            if (report := pipe.read(len(_ENTERED))) != _ENTERED:
                problem = (report + pipe.read()).decode(errors="replace")
                raise OSError(errno.EPERM, f"cannot move a process into a cgroup in {os.path.dirname(path)}: {problem}")
            _write(f"{path}/cgroup.kill", b"1")
            give_up_at = time.monotonic() + _PROBE_TIMEOUT_S
            while not _is_empty(path):
                if time.monotonic() > give_up_at:
                    raise OSError(errno.ETIMEDOUT, "cgroup.kill did not kill a process")
                time.sleep(0.0005)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_test_process(path: str, reading: int, writing: int) -> None:
    """Enter the cgroup, report that, and wait to be killed."""
    try:
        os.close(reading)
        die_with_parent(writing)
        _write(f"{path}/cgroup.procs", b"0")
        os.write(writing, _ENTERED)
        while True:
            signal.pause()
    except OSError as error:
        os.write(writing, (error.strerror or str(error)).encode(errors="replace")[:1024])
    finally:
        os._exit(1)


def _run_killer(release: int, kill_file: int) -> None:
    """Kill the cgroup as soon as the watchdog ends or releases this process: then the other end of the pipe is closed."""
    try:
        os.dup2(release, 0)
        os.dup2(kill_file, 1)
        close_descriptors_above(1)  # the socket and the driver's output must close with the watchdog
        # In a process group of its own, this process is not stopped together with the watchdog. If it is stopped nevertheless,
        # the kernel continues it when the watchdog ends: the group then loses its last parent in the same session.
        os.setpgid(0, 0)
        set_process_name(b"holdfast-killer")
        os.read(0, 1)
        os.write(1, b"1")
    finally:
        os._exit(0)
