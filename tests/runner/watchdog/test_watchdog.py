"""Watchdog process, controlled through its socket. The test plays the runner; the drivers are small programs."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog.__main__ import KILL_GRACE_S
from holdfast.runner.watchdog.isolation import CGROUP, NAMESPACE, SCAN
from tests.harness.waiting import wait_until
from tests.harness.watchdog_process import LONG_S, Watch, WatchdogProcess, now

TRIES = 5
"""Number of tries for time-critical tests: on a busy machine some fail, but a defect makes all of them fail."""

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
"""Program that writes the time of its end."""


def test_start_and_exit_of_a_driver_are_reported(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sh", "-c", "echo out; echo err >&2; exit 7")
    started = watchdog.receive("started")
    assert isinstance(started, int)
    status = watchdog.receive("exited")
    assert isinstance(status, int)
    assert os.waitstatus_to_exitcode(status) == 7
    assert watchdog.receive("ending") == "the driver has ended"
    assert watchdog.receive("empty") is True
    assert watchdog.process.wait(30) == 0
    assert watchdog.log.read_text() == "out\nerr\n"


def test_driver_has_its_own_session_and_only_standard_descriptors(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sh", "-c", "echo $$; cut -d' ' -f6 /proc/$$/stat; pwd; ls /proc/$$/fd; readlink /proc/$$/fd/0")
    pid = watchdog.receive("started")
    watchdog.receive("exited")
    own_pid, session, *rest = watchdog.log.read_text().split()
    assert own_pid == session
    assert (own_pid == str(pid)) == (watchdog.level != NAMESPACE)
    assert rest == [str(watchdog.log.parent), "0", "1", "2", "/dev/null"]


def test_driver_starts_with_default_signal_handlers(watch: Watch) -> None:
    """The driver is no shell, because a shell resets signal handlers and the signal mask."""
    watchdog = watch()
    watchdog.start("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    watchdog.receive("started")
    watchdog.receive("exited")
    # The C library reserves two signals, which no program can change, so they may be inherited.
    own = 1 << 31 | 1 << 32
    assert [int(line.split()[1], 16) & ~own for line in watchdog.log.read_text().splitlines()] == [0, 0]


@pytest.mark.parametrize("deadline_s", [None, -1.0, 0.0])
def test_driver_is_not_started_after_the_deadline_or_without_one(
    watch: Watch, tmp_path: Path, deadline_s: float | None
) -> None:
    watchdog = watch(deadline_s=None)
    request = {
        "command": ["touch", str(tmp_path / "ran")],
        "environment": {NONCE: watchdog.nonce},
        "directory": "/",
    }
    deadline = {} if deadline_s is None else {"deadline": now() + deadline_s}
    watchdog.send(**deadline, start=request)
    assert watchdog.receive("refused") == "the deadline had passed before the driver was started"
    if deadline_s is None:
        watchdog.send(kill=True)  # with a deadline, the deadline ends it
    watchdog.receive("ending")
    watchdog.receive("empty")
    assert not (tmp_path / "ran").exists()


def test_tree_is_killed_at_the_deadline(watch: Watch, report: Callable[[str], None]) -> None:
    """The kill must not wait for the next turn of the poll loop, up to a second later."""
    late_s = [_late_s(watch(), report)]
    while late_s[-1] > 0.5:
        assert len(late_s) < TRIES, late_s
        late_s.append(_late_s(watch(), report))


def _late_s(watchdog: WatchdogProcess, report: Callable[[str], None]) -> float:
    watchdog.start("sh", "-c", "trap '' TERM; setsid sleep 600 & sleep 600")
    watchdog.receive("started")
    wait_until(lambda: len(watchdog.pids()) == 3, within_s=20, what="a tree of three")
    deadline = now() + 0.1
    watchdog.send(deadline=deadline)
    assert watchdog.receive("ending") == "the deadline has passed"
    assert watchdog.receive("exited") == signal.SIGKILL
    late_s = now() - deadline
    assert late_s >= 0
    watchdog.receive("empty")
    report(f"watchdog: the tree was gone {(now() - deadline) * 1000:.0f} ms after the deadline")
    assert watchdog.pids() == []
    return late_s


@pytest.mark.slow
def test_newest_deadline_counts_whether_later_or_earlier(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    watchdog.send(deadline=now() + LONG_S)
    with watchdog.paused():  # so that it receives both deadlines at once
        watchdog.send(deadline=(first := now() + 0.5))
        watchdog.send(deadline=now() + LONG_S)
        wait_until(lambda: now() > first, within_s=30, what="the first deadline passes")
    assert select.select([watchdog.socket], [], [], 1.5)[0] == []
    assert watchdog.pids()
    watchdog.send(deadline=now() + 0.1)
    assert watchdog.receive("ending") == "the deadline has passed"


@pytest.mark.slow
def test_deadline_extended_in_time_holds_although_the_watchdog_was_paused(watch: Watch) -> None:
    assert any(_holds_though_paused(watch(), ahead_s) for ahead_s in (1, 5, 25)), "never paused in time"


def _holds_though_paused(watchdog: WatchdogProcess, ahead_s: float) -> bool:
    """Return False if the watchdog was paused too late, or so long that the kernel may have killed it."""
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    first = now() + ahead_s
    watchdog.send(deadline=first, start=watchdog.spawn_request("sleep", "600"))
    watchdog.receive("refused")  # proves that the first deadline was received
    with watchdog.paused():
        watchdog.send(deadline=now() + LONG_S)
        if now() >= first:
            return False
        wait_until(lambda: now() > first, within_s=60, what="the first deadline passes")
    if now() > first + KILL_GRACE_S / 2:
        return False
    assert select.select([watchdog.socket], [], [], 0.5)[0] == []
    assert len(watchdog.pids()) == 1
    return True


def test_failed_start_is_refused_with_a_reason_and_can_be_retried(watch: Watch, tmp_path: Path) -> None:
    watchdog = watch()
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    watchdog.start("no-such-program")
    assert watchdog.receive("refused") == "cannot run no-such-program: No such file or directory"
    watchdog.start(str(tmp_path / "script"))
    assert watchdog.receive("refused") == f"cannot run {tmp_path}/script: No such file or directory"
    watchdog.start(str(tmp_path))
    assert watchdog.receive("refused") == f"cannot run {tmp_path}: Permission denied"
    watchdog.start("true", directory="/no/such/directory")
    assert watchdog.receive("refused") == "cannot enter /no/such/directory: No such file or directory"
    watchdog.start("true", "a\0b")
    assert watchdog.receive("refused") == "cannot start the driver: embedded null byte"
    watchdog.start("true", "x" * 1_000_000)
    assert watchdog.receive("refused") == "cannot run true: Argument list too long"
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    watchdog.start("sleep", "600")
    assert watchdog.receive("refused") == "a driver has been started already"
    assert len(watchdog.pids()) == 1


@pytest.mark.slow
def test_signal_is_sent_to_the_driver_alone(watch: Watch) -> None:
    watchdog = watch()
    watchdog.send(signal=15)  # no driver is running yet
    watchdog.start("sh", "-c", "trap 'echo caught; exit 5' TERM; sh -c 'trap \"echo wrong\" TERM; sleep 1' & echo ready; wait")
    watchdog.receive("started")
    wait_until(lambda: watchdog.log.read_text() == "ready\n", within_s=20, what="the trap is set")
    for nonsense in (0, -1, 99999, 1.5, "TERM", None, [15]):
        watchdog.send(signal=nonsense)
    watchdog.send(signal=15)
    status = watchdog.receive("exited")
    assert isinstance(status, int)
    assert os.waitstatus_to_exitcode(status) == 5
    watchdog.receive("ending")
    watchdog.receive("empty")
    assert watchdog.log.read_text() == "ready\ncaught\n"


@pytest.mark.slow
def test_descendants_have_a_grace_period_after_the_driver_exits(watch: Watch, tmp_path: Path) -> None:
    def ended_by_itself() -> bool:
        watchdog = watch()
        watchdog.start(sys.executable, "-S", "-c", LEAVES_ONE_BEHIND, "0.3", str(tmp_path / "finished"))
        for kind in ("started", "exited", "ending", "empty"):
            watchdog.receive(kind)
        return (tmp_path / "finished").exists()

    assert any(ended_by_itself() for _ in range(TRIES))


@pytest.mark.slow
def test_descendants_are_killed_after_the_grace_period(watch: Watch, tmp_path: Path) -> None:
    watchdog = watch()
    watchdog.start(sys.executable, "-S", "-c", LEAVES_ONE_BEHIND, "600", str(tmp_path / "finished"))
    watchdog.receive("started")
    watchdog.receive("exited")
    assert watchdog.receive("ending") == "the driver has ended"
    assert now() - float(watchdog.log.read_text()) > 1.5
    watchdog.receive("empty")
    assert watchdog.pids() == []
    assert not (tmp_path / "finished").exists()


@pytest.mark.slow
def test_orphans_are_reaped_while_the_driver_runs(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sh", "-c", "i=0; while [ $i -lt 50 ]; do (sleep 0.2 &) ; i=$((i+1)); done; exec sleep 600")
    watchdog.receive("started")

    reaper = watchdog.init or watchdog.process.pid
    # The driver and the killer are children of the watchdog.
    own_children = {NAMESPACE: 0, CGROUP: 2, SCAN: 1}[watchdog.level]

    def children() -> list[str]:
        return Path(f"/proc/{reaper}/task/{reaper}/children").read_text().split()

    wait_until(lambda: len(children()) > own_children, within_s=20, what="orphans come to the reaper")
    wait_until(lambda: len(children()) == own_children, within_s=20, what="no orphan is left")


@pytest.mark.slow
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
def test_malformed_message_kills_the_tree(watch: Watch, garbage: bytes) -> None:
    watchdog = watch()
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have closed the socket already
        watchdog.socket.sendall(garbage)
    assert watchdog.process.wait(30) == 0
    assert watchdog.pids() == []


def test_unknown_message_is_ignored(watch: Watch) -> None:
    watchdog = watch()
    watchdog.send(weather="fine", deadline=now() + 60)
    watchdog.start("true")
    watchdog.receive("started")


def test_closed_socket_kills_the_tree(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    watchdog.socket.sendall(b'{"deadl')
    watchdog.socket.close()
    assert watchdog.process.wait(30) == 0
    assert watchdog.pids() == []


def test_runner_that_does_not_read_does_not_block_the_watchdog(watch: Watch) -> None:
    watchdog = watch(stuffed=True, deadline_s=None)
    watchdog.send(deadline=now() + 60)
    watchdog.start("sleep", "600")
    wait_until(watchdog.pids, within_s=30, what="the driver runs")
    watchdog.send(deadline=now() + 0.2)
    assert watchdog.process.wait(30) == 0
    assert watchdog.pids() == []


def test_watchdog_ignores_termination_signals(watch: Watch) -> None:
    watchdog = watch()
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        watchdog.process.send_signal(number)
    watchdog.send(signal=signal.SIGTERM)
    assert watchdog.receive("exited") == signal.SIGTERM


@pytest.mark.parametrize("level", [NAMESPACE, CGROUP, SCAN])
def test_kernel_kills_the_driver_when_the_watchdog_is_killed(tmp_path: Path, level: str) -> None:
    watchdog = WatchdogProcess(tmp_path, level=level)
    with watchdog.socket:
        watchdog.receive_ready()
        watchdog.send(deadline=now() + 60)
        watchdog.start("sh", "-c", "trap '' TERM HUP; while :; do sleep 0.1; done")
        watchdog.receive("started")
        watchdog.process.kill()
        watchdog.process.wait()
        wait_until(lambda: watchdog.pids() == [], within_s=20, what="the driver is dead")


def test_watchdog_exits_if_its_runner_is_already_dead(tmp_path: Path) -> None:
    watchdog = WatchdogProcess(tmp_path, runner=1)
    try:
        assert watchdog.process.wait(30) == 0
        assert watchdog.socket.recv(100) == b""
    finally:
        watchdog.kill()


def test_watchdog_uses_little_memory(watch: Watch, report: Callable[[str], None]) -> None:
    watchdog = watch()
    watchdog.start("sleep", "600")
    watchdog.receive("started")
    kilobytes = int(Path(f"/proc/{watchdog.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    report(f"watchdog: {kilobytes / 1024:.1f} MB resident")
    assert kilobytes < 16 * 1024
    show = "import holdfast.runner.watchdog.__main__, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", show], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in HEAVY if name in loaded] == []
