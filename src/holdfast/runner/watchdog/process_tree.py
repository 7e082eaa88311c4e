"""The processes of one attempt, wherever they have gone: each carries HOLDFAST_NONCE=<nonce> in its environment.

A process inherits the mark, and keeps it when it leaves its group or session or when its parent ends. Its descendants belong to
the tree too, marked or not, as long as the line to them can be seen. Standard library only: the watchdog imports this.

How a look can go wrong, and what is done about it:
- A process that is just replacing its program (exec) has no environment for a moment. The kernel shows that none has been laid
  out yet, so the process is looked at again.
- A process may end after it was listed and before it was looked at, with a child that is not on the list. So the list is read
  again, until everybody on it has been looked at alive; the newest first, who are the likeliest to be gone soon. Pids are
  listed upwards, so newcomers are ahead of the reader. For the one that was born behind it, when pids had begun anew, nothing
  is called empty before two looks have found nothing.
- A pid may change hands. Everything about a process is read through one open directory of it, which never leads to another one,
  and a signal goes through a pidfd that was checked against the start time.
"""

import os
import signal
import time

VARIABLE = "HOLDFAST_NONCE"
KILL_S = 5.0
"""How long `kill` tries. What is left then cannot be interrupted, or belongs to another user."""
SCAN_S = 0.5
SCAN_ROUNDS = 20
"""How long, and how often at least, the list of processes is read again because of one that came and went."""
EMPTY_S = 5.0
"""The same, as long as nobody of the tree has been found: it may be the one that comes and goes."""
EXEC_S = 10.0
"""How long a process that is in the middle of exec is waited for: its program may have to come from a slow disk. One that stays
like that is not taken for one of the tree, and is not waited for again."""

_KERNEL_THREAD = 0x00200000
_EXITING = 0x00000004


class Process:
    """One process, named by pid and start time (clock ticks after boot): a pid alone may be somebody else's by now."""

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

    def send(self, number: int) -> bool:
        """Whether the process was there to get the signal, and the signal ours to send."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # If it has this pid still, it had it when the descriptor was opened.
            now = _glance(self.pid)
            if now is None or now.started != self.started:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            return False  # gone; or it runs as another user
        finally:
            os.close(descriptor)
        return True


_stuck: set[Process] = set()
"""Those that have been in the middle of exec for too long."""


class _Sighting:
    """What one look at a process has shown."""

    __slots__ = ("marked", "process")

    def __init__(self, process: Process | None, marked: bool | None) -> None:
        self.process = process
        """None: it is dead, and only nobody has waited for it."""
        self.marked = marked
        """None: it cannot be told yet."""


def living(nonce: str, *, own: bool = False) -> list[Process]:
    """The tree, without the caller itself. Zombies do not count. Empty means that two looks in a row have found nothing.

    With `own`, every descendant of the caller counts as well: for a reaper (PR_SET_CHILD_SUBREAPER), to whom all orphans come.
    """
    mark = f"{VARIABLE}={nonce}".encode()
    return _scan(mark, own) or _scan(mark, own)


def kill(nonce: str, *, own: bool = False, within_s: float = KILL_S) -> list[Process]:
    """SIGKILL the tree until none of it is left. What is left after `within_s` nevertheless; nothing, as a rule.

    Whoever is found is stopped at once, with all descendants, and killed when the look is over. To kill at once would only make
    room: those not found yet could have children faster than they are killed.
    """
    mark = f"{VARIABLE}={nonce}".encode()
    give_up_at = time.monotonic() + within_s
    pause_s = 0.001
    while left := _scan(mark, own, hold=True) or _scan(mark, own, hold=True):
        for process in left:
            process.send(signal.SIGKILL)
        if time.monotonic() > give_up_at:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return left


def strike() -> None:
    """Kill every descendant of the caller, as far as one blow can: who was orphaned meanwhile is there for the next.

    Reads no environment. To read one can take long, if its process has many threads or is about to fork.
    """
    held: dict[int, Process] = {}
    before = -1
    while len(held) > before:
        before = len(held)
        for child in _children(os.getpid()):
            if child.pid not in held:
                _hold(child, held)
    for process in held.values():
        process.send(signal.SIGKILL)


def resident_bytes(nonce: str) -> int:
    """The memory that the tree holds. What processes share (workers are forked from one another) is counted once."""
    return sum(_resident_bytes(process.pid) for process in _scan(f"{VARIABLE}={nonce}".encode(), False))


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it has ended meanwhile, or is another user's
    return 0


def _scan(mark: bytes, own: bool, *, hold: bool = False) -> list[Process]:
    """A look at every process there is. With `hold`, those that are found stand still from then on."""
    me = os.getpid()
    seen: dict[int, _Sighting] = {}
    held: dict[int, Process] = {}
    rounds = 0
    begun = time.monotonic()
    while True:
        missed = False
        becoming: list[Process] = []
        for pid in reversed([int(name) for name in os.listdir("/proc") if name.isdigit()]):
            if pid == me or (pid in seen and seen[pid].marked is not None):
                continue
            sighting = _Sighting(held[pid], True) if pid in held else _look(pid, mark)
            if sighting is None:
                seen.pop(pid, None)
                missed = True
                continue
            seen[pid] = sighting
            missed = missed or sighting.process is None
            if sighting.marked is None and sighting.process is not None and sighting.process not in _stuck:
                becoming.append(sighting.process)
                time.sleep(0.001)
            if hold and sighting.marked and sighting.process is not None:
                _hold(sighting.process, held)
        rounds += 1
        elapsed_s = time.monotonic() - begun
        if becoming and elapsed_s > EXEC_S:
            _stuck.update(becoming)
        elif becoming:
            continue
        if missed and rounds < SCAN_ROUNDS:
            continue
        found = list({**held, **_with_descendants(seen, me if own else None)}.values())
        if not missed or elapsed_s > (SCAN_S if found else EMPTY_S):
            return found


def _hold(process: Process, held: dict[int, Process]) -> None:
    """Stop a process and its descendants, each before its children are looked up: whoever stands still gets no more of them."""
    waiting = [process]
    while waiting:
        parent = waiting.pop()
        if parent.pid not in held and parent.pid != os.getpid() and parent.send(signal.SIGSTOP):
            held[parent.pid] = parent
            waiting += _children(parent.pid)


def _children(parent: int) -> list[Process]:
    """From the kernel's own list; none if it keeps no such list, and then only a scan finds them."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    pids += map(int, file.read().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended: its children are another thread's
    except (FileNotFoundError, ProcessLookupError):
        pass
    # A pid may have changed hands since the list was read, but not to another child of a parent that stands still.
    children = (_glance(pid) for pid in pids)
    return [child for child in children if child is not None and child.parent == parent]


def _glance(pid: int) -> Process | None:
    """None if there is no such process, or only a dead one that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return _process(pid, _fields(file.read()))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _process(pid: int, fields: list[bytes]) -> Process | None:
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1  # the first thread may have ended while others run
    return None if dead else Process(pid, int(fields[19]), int(fields[1]))


def _with_descendants(seen: dict[int, _Sighting], root: int | None) -> dict[int, Process]:
    """Those that are marked, and all that descend from them or from `root`."""
    children: dict[int, list[Process]] = {}
    tree: dict[int, Process] = {}
    for pid, sighting in seen.items():
        if sighting.process is not None:
            children.setdefault(sighting.process.parent, []).append(sighting.process)
            if sighting.marked:
                tree[pid] = sighting.process
    if root is not None:
        tree.update((child.pid, child) for child in children.get(root, ()))
    fresh = list(tree.values())
    while fresh:
        parent = fresh.pop()
        for child in children.get(parent.pid, ()):
            # Nobody is older than their parent: if it seems so, the parent's pid has changed hands.
            if child.pid not in tree and child.started >= parent.started:
                tree[child.pid] = child
                fresh.append(child)
    return tree


def _look(pid: int, mark: bytes) -> _Sighting | None:
    """None if there is no such process any more.

    Any other trouble (no descriptors, no memory) is raised: a process that could not be looked at is not one that is gone.
    """
    try:
        directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return _Sighting(None, False)  # hidden from this user, whose processes are not
    try:
        environment = _environment(directory, "environ")
        fields = _fields(_read(directory, "stat"))
        process = _process(pid, fields)
        if process is not None and environment == b"" and int(fields[17]) > 1:
            environment = _environment_of_threads(directory)
        if environment:
            return _Sighting(process, mark in environment.split(b"\0"))
        unknown = process is not None and environment == b"" and _may_get_an_environment(fields)
        return _Sighting(process, None if unknown else False)
    except (FileNotFoundError, ProcessLookupError):
        return None
    finally:
        os.close(directory)


def _fields(stat: bytes) -> list[bytes]:
    # The command's name stands in brackets and may hold anything; the fields after it are plain.
    return stat.rpartition(b")")[2].split()


def _may_get_an_environment(fields: list[bytes]) -> bool:
    """Of a process that shows none: whether exec has not laid one out yet, as against one that is empty, or will never be."""
    if int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    end_of_code, begin, end = int(fields[24]), int(fields[47]), int(fields[48])
    # While the kernel lays out an environment, it looks like an empty one. Where the code ends is noted only after that.
    return end_of_code == 0 or begin != end


def _environment(directory: int, name: str) -> bytes | None:
    """Empty if it has none at the moment; None if it is not for us to read, as of a process of another user."""
    try:
        return _read(directory, name)
    except ProcessLookupError:
        return b""  # no memory of its own: it is ending, or a kernel thread
    except PermissionError:
        return None


def _environment_of_threads(directory: int) -> bytes | None:
    """A program's first thread may have ended while others run: then only they show the environment."""
    tasks = os.open("task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
    try:
        for name in os.listdir(tasks):
            try:
                environment = _environment(tasks, f"{name}/environ")
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
