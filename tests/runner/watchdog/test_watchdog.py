"""The watchdog, spoken to over its socket. The test is the runner; the drivers are small programs."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.runner.watchdog import process_tree
from tests.harness.waiting import eventually

TRIES = 5
"""Where something is to happen at once. A busy machine spoils some of them; what is wrong is late each time."""
LONG_S = 600.0

HEAVY = ("asyncio", "subprocess", "logging", "socket", "typing", "dataclasses", "inspect", "pathlib", "structlog", "kazoo")

LEAVES_ONE_BEHIND = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    time.sleep(float(sys.argv[1]))
    open(sys.argv[2], "w").close()
    time.sleep(0.1)
else:
    print(time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""
"""Says when it ends."""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Watched:
    """A watchdog, and the runner's end of its socket."""

    def __init__(self, directory: Path, *, stuffed: bool = False, runner: int | None = None) -> None:
        self.nonce = secrets.token_hex(8)
        self.log = directory / "driver.log"
        self._directory = directory
        self.socket, theirs = socket.socketpair()
        if stuffed:
            theirs.setblocking(False)
            while select.select([], [theirs], [], 0)[1]:
                theirs.send(b"\n" * 4096)
            theirs.setblocking(True)
        command = [sys.executable, "-P", "-m", "holdfast.runner.watchdog", str(theirs.fileno()), str(runner or os.getpid())]
        with theirs, open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()], start_new_session=True
            )
        self._received = b""

    def say(self, **message: object) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def order(self, *command: str) -> dict[str, object]:
        return {
            "command": command,
            "environment": {**os.environ, process_tree.VARIABLE: self.nonce},
            "directory": str(self._directory),
        }

    def start(self, *command: str, **changes: object) -> None:
        self.say(start={**self.order(*command), **changes})

    def hear(self, kind: str, within_s: float = 30) -> object:
        """The next message, which must be of this kind."""
        deadline = time.monotonic() + within_s
        while b"\n" not in self._received:
            assert select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0], f"no {kind}"
            data = self.socket.recv(65536)
            assert data, f"the line ended where {kind} should have come"
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        message = json.loads(line)
        assert list(message) == [kind], message
        return message[kind]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        eventually(lambda: state_of(self.process.pid) == "T", within_s=30, what="the watchdog stands still")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.living(self.nonce)]

    def end(self) -> None:
        self.socket.close()
        try:
            assert self.process.wait(30) == 0, self.log.read_text()
        finally:
            self.process.kill()
            self.process.wait()
            assert process_tree.kill(self.nonce) == []


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def begin(*, deadline_s: float | None = LONG_S, **options: bool) -> Watched:
        started.append(watched := Watched(tmp_path, **options))  # type: ignore[arg-type]
        if not options:
            watched.hear("ready")
        if deadline_s is not None:
            watched.say(deadline=now() + deadline_s)
        return watched

    yield begin
    for watched in started:
        watched.end()


Watch = Callable[..., Watched]


def test_a_driver_is_started_and_its_end_is_told(watch: Watch) -> None:
    watched = watch()
    watched.start("sh", "-c", "echo out; echo err >&2; exit 7")
    started = watched.hear("started")
    assert isinstance(started, int)
    status = watched.hear("exited")
    assert isinstance(status, int)
    assert os.waitstatus_to_exitcode(status) == 7
    assert watched.hear("ending") == "the driver has ended"
    assert watched.hear("empty") is True
    assert watched.process.wait(30) == 0
    assert watched.log.read_text() == "out\nerr\n"


def test_a_driver_has_a_session_of_its_own_and_no_other_descriptors(watch: Watch) -> None:
    watched = watch()
    watched.start("sh", "-c", "echo $$; cut -d' ' -f6 /proc/$$/stat; pwd; ls /proc/$$/fd; readlink /proc/$$/fd/0")
    pid = watched.hear("started")
    watched.hear("exited")
    own_session = [str(pid), str(pid)]
    assert watched.log.read_text().split() == [*own_session, str(watched.log.parent), "0", "1", "2", "/dev/null"]


def test_a_driver_begins_without_odd_signals(watch: Watch) -> None:
    """Not by a shell, which changes its signals for every process that it starts, and takes all that are blocked back."""
    watched = watch()
    watched.start("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    watched.hear("started")
    watched.hear("exited")
    # Two signals are the C library's own. Nobody can change them, and so they may be inherited.
    own = 1 << 31 | 1 << 32
    assert [int(line.split()[1], 16) & ~own for line in watched.log.read_text().splitlines()] == [0, 0]


@pytest.mark.parametrize("deadline_s", [None, -1.0, 0.0])
def test_past_the_deadline_or_without_one_nothing_is_started(watch: Watch, tmp_path: Path, deadline_s: float | None) -> None:
    watched = watch(deadline_s=None)
    order = {
        "command": ["touch", str(tmp_path / "ran")],
        "environment": {process_tree.VARIABLE: watched.nonce},
        "directory": "/",
    }
    deadline = {} if deadline_s is None else {"deadline": now() + deadline_s}
    watched.say(**deadline, start=order)
    assert watched.hear("refused") == "the deadline had passed before the driver was started"
    if deadline_s is None:
        watched.say(kill=True)  # otherwise the deadline ends it
    watched.hear("ending")
    watched.hear("empty")
    assert not (tmp_path / "ran").exists()


def test_at_the_deadline_the_tree_is_killed(watch: Watch, report: Callable[[str], None]) -> None:
    """And not only when it looks up the next time, which is a second after the last message."""
    late_s = [_late_s(watch(), report)]
    while late_s[-1] > 0.5:
        assert len(late_s) < TRIES, late_s
        late_s.append(_late_s(watch(), report))


def _late_s(watched: Watched, report: Callable[[str], None]) -> float:
    watched.start("sh", "-c", "trap '' TERM; setsid sleep 600 & sleep 600")
    watched.hear("started")
    eventually(lambda: len(watched.pids()) == 3, within_s=20, what="a tree of three")
    deadline = now() + 0.1
    watched.say(deadline=deadline)
    assert watched.hear("ending") == "the deadline has passed"
    assert watched.hear("exited") == signal.SIGKILL
    late_s = now() - deadline
    assert late_s >= 0
    watched.hear("empty")
    report(f"watchdog: the tree was gone {(now() - deadline) * 1000:.0f} ms after the deadline")
    assert watched.pids() == []
    return late_s


def test_the_newest_deadline_counts_whether_it_is_later_or_earlier(watch: Watch) -> None:
    watched = watch()
    watched.start("sleep", "600")
    watched.hear("started")
    watched.say(deadline=now() + LONG_S)
    with watched.paused():  # so that it hears of both at once, however long it takes to say them
        watched.say(deadline=(first := now() + 0.5))
        watched.say(deadline=now() + LONG_S)
        eventually(lambda: now() > first, within_s=30, what="the first deadline passes")
    assert select.select([watched.socket], [], [], 1.5)[0] == []
    assert watched.pids()
    watched.say(deadline=now() + 0.1)
    assert watched.hear("ending") == "the deadline has passed"


def test_a_deadline_that_was_moved_in_time_holds_though_the_watchdog_was_paused(watch: Watch) -> None:
    assert any(_holds_though_paused(watch(), ahead_s) for ahead_s in (1, 5, 25)), "never paused in time"


def _holds_though_paused(watched: Watched, ahead_s: float) -> bool:
    """False if the first deadline had passed before the watchdog stood still."""
    watched.start("sleep", "600")
    watched.hear("started")
    first = now() + ahead_s
    watched.say(deadline=first, start=watched.order("sleep", "600"))
    watched.hear("refused")  # so that it knows of the first deadline
    with watched.paused():
        watched.say(deadline=now() + LONG_S)
        if now() >= first:
            return False
        eventually(lambda: now() > first + 0.2, within_s=60, what="the first deadline passes")
    assert select.select([watched.socket], [], [], 0.5)[0] == []
    assert len(watched.pids()) == 1
    return True


def test_what_cannot_be_started_is_refused_with_a_sentence_and_may_be_mended(watch: Watch, tmp_path: Path) -> None:
    watched = watch()
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    watched.start("no-such-program")
    assert watched.hear("refused") == "cannot run no-such-program: No such file or directory"
    watched.start(str(tmp_path / "script"))
    assert watched.hear("refused") == f"cannot run {tmp_path}/script: No such file or directory"
    watched.start(str(tmp_path))
    assert watched.hear("refused") == f"cannot run {tmp_path}: Permission denied"
    watched.start("true", directory="/no/such/directory")
    assert watched.hear("refused") == "cannot enter /no/such/directory: No such file or directory"
    watched.start("true", "a\0b")
    assert watched.hear("refused") == "cannot start the driver: embedded null byte"
    watched.start("true", "x" * 1_000_000)
    assert watched.hear("refused") == "cannot run true: Argument list too long"
    watched.start("sleep", "600")
    watched.hear("started")
    watched.start("sleep", "600")
    assert watched.hear("refused") == "a driver has been started already"
    assert len(watched.pids()) == 1


def test_a_signal_goes_to_the_driver_alone(watch: Watch) -> None:
    watched = watch()
    watched.say(signal=15)  # nobody is there yet
    watched.start("sh", "-c", "trap 'echo caught; exit 5' TERM; sh -c 'trap \"echo wrong\" TERM; sleep 1' & echo ready; wait")
    watched.hear("started")
    eventually(lambda: watched.log.read_text() == "ready\n", within_s=20, what="the trap is set")
    for nonsense in (0, -1, 99999, 1.5, "TERM", None, [15]):
        watched.say(signal=nonsense)
    watched.say(signal=15)
    status = watched.hear("exited")
    assert isinstance(status, int)
    assert os.waitstatus_to_exitcode(status) == 5
    watched.hear("ending")
    watched.hear("empty")
    assert watched.log.read_text() == "ready\ncaught\n"


def test_what_outlives_its_driver_has_a_moment_to_end_by_itself(watch: Watch, tmp_path: Path) -> None:
    def ended_by_itself() -> bool:
        watched = watch()
        watched.start(sys.executable, "-S", "-c", LEAVES_ONE_BEHIND, "0.3", str(tmp_path / "finished"))
        for kind in ("started", "exited", "ending", "empty"):
            watched.hear(kind)
        return (tmp_path / "finished").exists()

    assert any(ended_by_itself() for _ in range(TRIES))


def test_what_outlives_its_driver_for_longer_is_killed(watch: Watch, tmp_path: Path) -> None:
    watched = watch()
    watched.start(sys.executable, "-S", "-c", LEAVES_ONE_BEHIND, "600", str(tmp_path / "finished"))
    watched.hear("started")
    watched.hear("exited")
    assert watched.hear("ending") == "the driver has ended"
    assert now() - float(watched.log.read_text()) > 1.5
    watched.hear("empty")
    assert watched.pids() == []
    assert not (tmp_path / "finished").exists()


def test_orphans_are_waited_for_while_the_driver_runs(watch: Watch) -> None:
    watched = watch()
    watched.start("sh", "-c", "i=0; while [ $i -lt 50 ]; do (sleep 0.2 &) ; i=$((i+1)); done; exec sleep 600")
    watched.hear("started")

    def children() -> list[str]:
        return Path(f"/proc/{watched.process.pid}/task/{watched.process.pid}/children").read_text().split()

    eventually(lambda: len(children()) > 1, within_s=20, what="orphans come to the watchdog")
    eventually(lambda: len(children()) == 1, within_s=20, what="only the driver is left")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x00nonsense\n",
        b"[1, 2]\n",
        b'{"deadline": "soon"}\n',
        b'{"deadline": NaN}\n',
        b'{"deadline": Infinity}\n',
        b'{"start": {"command": ["true"]}}\n',
        b'{"start": 5}\n',
        b"[" * 100_000 + b"\n",
        b"x" * 5_000_000,
    ],
    ids=lambda garbage: repr(garbage[:20]),
)
def test_a_runner_that_talks_nonsense_loses_its_driver(watch: Watch, garbage: bytes) -> None:
    watched = watch()
    watched.start("sleep", "600")
    watched.hear("started")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have heard enough
        watched.socket.sendall(garbage)
    assert watched.process.wait(30) == 0
    assert watched.pids() == []


def test_a_message_of_a_later_version_is_passed_over(watch: Watch) -> None:
    watched = watch()
    watched.say(weather="fine", deadline=now() + 60)
    watched.start("true")
    watched.hear("started")


def test_a_runner_that_hangs_up_loses_its_driver(watch: Watch) -> None:
    watched = watch()
    watched.start("sleep", "600")
    watched.hear("started")
    watched.socket.sendall(b'{"deadl')
    watched.socket.close()
    assert watched.process.wait(30) == 0
    assert watched.pids() == []


def test_a_runner_that_does_not_read_does_not_hold_the_watchdog_up(watch: Watch) -> None:
    watched = watch(stuffed=True, deadline_s=None)
    watched.say(deadline=now() + 60)
    watched.start("sleep", "600")
    eventually(watched.pids, within_s=30, what="the driver runs")
    watched.say(deadline=now() + 0.2)
    assert watched.process.wait(30) == 0
    assert watched.pids() == []


def test_what_is_sent_to_everybody_does_not_end_it(watch: Watch) -> None:
    watched = watch()
    watched.start("sleep", "600")
    watched.hear("started")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        watched.process.send_signal(number)
    watched.say(signal=signal.SIGTERM)
    assert watched.hear("exited") == signal.SIGTERM


def test_with_the_watchdog_the_kernel_kills_the_driver(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    with watched.socket:
        watched.hear("ready")
        watched.say(deadline=now() + 60)
        watched.start("sh", "-c", "trap '' TERM HUP; while :; do sleep 0.1; done")
        watched.hear("started")
        watched.process.kill()
        watched.process.wait()
        eventually(lambda: watched.pids() == [], within_s=20, what="the driver is dead")


def test_a_watchdog_whose_runner_is_gone_already_ends(tmp_path: Path) -> None:
    watched = Watched(tmp_path, runner=1)
    try:
        assert watched.process.wait(30) == 0
        assert watched.socket.recv(100) == b""
    finally:
        watched.end()


def test_it_is_small(watch: Watch, report: Callable[[str], None]) -> None:
    watched = watch()
    watched.start("sleep", "600")
    watched.hear("started")
    kilobytes = int(Path(f"/proc/{watched.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    report(f"watchdog: {kilobytes / 1024:.1f} MB resident")
    assert kilobytes < 16 * 1024
    show = "import holdfast.runner.watchdog.__main__, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", show], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in HEAVY if name in loaded] == []
