"""Processes as /proc shows them. Standard library only: the watchdog imports this.

A pid can be reused at any time. So everything about a process is read through one open directory of /proc, which never leads
to another process, and a signal goes through a pidfd that was checked against the start time.
"""

import os
import signal

from holdfast.runner.watchdog.cgroup_location import read_own_path

_KERNEL_THREAD = 0x00200000
_EXITING = 0x00000004


class Process:
    """Process, identified by pid and start time (clock ticks after boot), because a pid alone can be reused."""

    __slots__ = ("parent", "pid", "started")

    def __init__(self, pid: int, started: int, parent: int) -> None:
        self.pid = pid
        self.started = started
        self.parent = parent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and (self.pid, self.started) == (other.pid, other.started)

    def __hash__(self) -> int:
        return hash((self.pid, self.started))

    def __repr__(self) -> str:
        return f"Process(pid={self.pid}, started={self.started})"

    def is_alive(self) -> bool:
        return read_process(self.pid) == self

    def send_signal(self, number: int) -> bool:
        """Send a signal. Return False if the process is gone or belongs to another user."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # A process that has this pid and start time now also had them when the descriptor was opened.
            current = read_process(self.pid)
            if current is None or current.started != self.started:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            return False
        finally:
            os.close(descriptor)
        return True


class Observation:
    """Result of reading one process."""

    __slots__ = ("marked", "process")

    def __init__(self, process: Process | None, marked: bool | None) -> None:
        self.process = process
        """None for a zombie, and for a process that another user hides."""
        self.marked = marked
        """True if the environment contains the mark. None if exec has not set up the environment yet."""


def list_pids() -> list[int]:
    """Return all pids, in ascending order."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return _process(pid, _stat_fields(file.read()))
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_exiting(pid: int) -> bool:
    """Return True if the process can execute no code any more, or is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return bool(int(_stat_fields(file.read())[6]) & _EXITING)
    except (FileNotFoundError, ProcessLookupError):
        return True


def read_pid_namespace(pid: int) -> int | None:
    """Return the number of the PID namespace of a process, or None if it is gone or another user hides it."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def read_cgroup(pid: int) -> str | None:
    """Return the path of the v2 cgroup of a process, relative to the caller's cgroup namespace; None if it is gone."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return read_own_path(os.fsdecode(file.read()))
    except (FileNotFoundError, ProcessLookupError):
        return None


def list_children(parent: int) -> list[Process]:
    """Return the children that the kernel lists; none if the kernel is built without that list. The parent must be stopped."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    pids += map(int, file.read().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended, and another thread has its children now
    except (FileNotFoundError, ProcessLookupError):
        pass
    # A pid may have been reused since the list was read, but not for another child of a stopped parent.
    children = (read_process(pid) for pid in pids)
    return [child for child in children if child is not None and child.parent == parent]


def observe(pid: int, mark: bytes) -> Observation | None:
    """Return whether the process has `mark` in its environment, or None if the process is gone.

    Any other error (no descriptors, no memory) is raised: a process that could not be read is not a process that is gone.
    """
    try:
        directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return Observation(None, False)  # another user's process; this user's processes are never hidden
    try:
        return _observe(pid, directory, mark)
    except (FileNotFoundError, ProcessLookupError):
        return None
    finally:
        os.close(directory)


def _observe(pid: int, directory: int, mark: bytes) -> Observation:
    environment = _read_environment(directory, "environ")
    fields = _stat_fields(_read(directory, "stat"))
    process = _process(pid, fields)
    if process is not None and environment == b"" and int(fields[17]) > 1:
        environment = _read_environment_of_threads(directory)
    if environment:
        return Observation(process, mark in environment.split(b"\0"))
    undecided = process is not None and environment == b"" and _may_get_environment(fields)
    return Observation(process, None if undecided else False)


def resident_bytes(pid: int) -> int:
    """Return the proportional set size: memory that processes share is divided among them. 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # the process has ended or belongs to another user
    return 0


def _stat_fields(stat: bytes) -> list[bytes]:
    # The command's name is in parentheses and may contain anything; the fields after it are plain.
    return stat.rpartition(b")")[2].split()


def _process(pid: int, fields: list[bytes]) -> Process | None:
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1  # the main thread may have ended while others run
    return None if dead else Process(pid, int(fields[19]), int(fields[1]))


def _may_get_environment(fields: list[bytes]) -> bool:
    """Return True if a process shows no environment because exec has not set it up yet; False if it will never have one."""
    if int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    end_of_code, begin, end = int(fields[24]), int(fields[47]), int(fields[48])
    # While the kernel sets up an environment, the environment looks empty. The end of the code is set only after that.
    return end_of_code == 0 or begin != end


def _read_environment(directory: int, name: str) -> bytes | None:
    """Return the environment; empty if the process has none now, None if this user may not read it."""
    try:
        return _read(directory, name)
    except ProcessLookupError:
        return b""  # no memory: the process is ending, or it is a kernel thread
    except PermissionError:
        return None


def _read_environment_of_threads(directory: int) -> bytes | None:
    """Return the environment that another thread shows: the main thread may have ended while others run."""
    tasks = os.open("task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
    try:
        for name in os.listdir(tasks):
            try:
                environment = _read_environment(tasks, f"{name}/environ")
            except FileNotFoundError:
                continue
            if environment or environment is None:
                return environment
        return b""
    finally:
        os.close(tasks)


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=directory)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
