"""Finding and killing the processes of one attempt. Real processes, which try to get away."""

import contextlib
import os
import platform
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.runner.watchdog import process_tree
from tests.harness.waiting import eventually

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
open("/proc/self/comm", "w").write("daemon")
time.sleep(600)
"""

FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({exit}, 0)
"""

RESTLESS = 'i=0; while [ $i -lt 40 ]; do i=$((i+1)); done; exec sh -c "$RESTLESS"'
"""Replaces its own program, over and over again."""

FAMILY = """
import os, time
memory = bytearray(os.urandom(1024)) * (50 * 1024)
for _ in range(4):
    if os.fork() == 0: break
time.sleep(600)
"""

HYDRA = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
until = time.monotonic() + 60
for _ in range(7):
    if os.fork() == 0: break
os.write({alive}, b".")
while time.monotonic() < until:
    time.sleep({life_s})
    os.setsid() if os.getpid() != os.getsid(0) else None
    if os.fork(): os._exit(0)
"""
"""Eight heads, and each is gone after a moment, with a successor in its place. All hold a pipe open as long as one lives."""

BYSTANDERS = """
import os, time
reading, writing = os.pipe()
for _ in range(400):
    if os.fork() == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
open("/proc/self/comm", "w").write("ready")
time.sleep(600)
"""
"""So many that to look at all of them takes longer than a head of the hydra lives. They end with the first."""

BREEDER = """
import os, time
until = time.monotonic() + 5
while time.monotonic() < until:
    if os.fork() == 0:
        os.setsid()
        os.fork()
        time.sleep(600)
"""


class Nursery:
    """Starts processes that carry one nonce, and sees to it that none is left."""

    def __init__(self) -> None:
        self.nonce = secrets.token_hex(8)
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, inherits: tuple[int, ...] = (), **variables: str) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, process_tree.VARIABLE: self.nonce, **variables}
        child = subprocess.Popen(command, env=environment, pass_fds=inherits)
        self.children.append(child)
        return child

    def python(self, script: str, inherits: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.start(sys.executable, "-S", "-c", script, inherits=inherits)

    def pids(self) -> set[int]:
        return {process.pid for process in process_tree.living(self.nonce)}

    def end(self) -> None:
        left = process_tree.kill(self.nonce, within_s=20)
        for child in self.children:
            child.kill()
            child.wait()
        assert not left


def state_of(pid: int) -> str:
    """Its letter, or nothing for a process that is gone without a trace."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.end()


def test_a_process_is_found_though_it_has_left_group_session_and_parent(nursery: Nursery) -> None:
    first = nursery.python(DAEMON)
    first.wait()

    def only_the_daemon() -> int | None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            (pid,) = nursery.pids()
            return pid if Path(f"/proc/{pid}/comm").read_text() == "daemon\n" else None
        return None

    daemon = eventually(only_the_daemon, within_s=20, what="only the daemon is left")
    assert os.getsid(daemon) not in (os.getsid(0), first.pid)
    assert process_tree.kill(nursery.nonce) == []
    assert nursery.pids() == set()


def test_only_the_whole_variable_is_a_mark(nursery: Nursery) -> None:
    for variables in (
        {process_tree.VARIABLE: nursery.nonce + "0"},
        {process_tree.VARIABLE: nursery.nonce[:-1]},
        {process_tree.VARIABLE: "", "X" + process_tree.VARIABLE: nursery.nonce},
        {process_tree.VARIABLE: "", "OTHER": f"{process_tree.VARIABLE}={nursery.nonce}"},
    ):
        nursery.start("sleep", "600", **variables)
    argument = f"{process_tree.VARIABLE}={nursery.nonce}"
    nursery.start(sys.executable, "-S", "-c", "import time; time.sleep(600)", argument, **{process_tree.VARIABLE: ""})
    marked = nursery.start("sleep", "600")
    eventually(lambda: nursery.pids() == {marked.pid}, within_s=20, what="one of six is marked")
    assert process_tree.kill(nursery.nonce) == []
    assert [child.poll() for child in nursery.children] == [None] * 5 + [-signal.SIGKILL]


def test_a_zombie_is_not_alive(nursery: Nursery) -> None:
    child = nursery.start("sleep", "600")
    child.send_signal(signal.SIGKILL)  # and nobody waits for it
    eventually(lambda: nursery.pids() == set(), within_s=20, what="a dead process does not count")
    assert Path(f"/proc/{child.pid}").exists()


def test_a_child_that_wiped_its_environment_is_found_by_its_parent(nursery: Nursery) -> None:
    parent = nursery.start("sh", "-c", "env -i sleep 600 & wait")
    eventually(lambda: len(nursery.pids()) == 2, within_s=20, what="both are found")
    child = next(pid for pid in nursery.pids() if pid != parent.pid)
    eventually(lambda: Path(f"/proc/{child}/environ").read_bytes() == b"", within_s=20, what="the environment is empty")
    assert nursery.pids() == {parent.pid, child}
    assert process_tree.kill(nursery.nonce) == []
    eventually(lambda: state_of(child) in "Z", within_s=20, what="the child is dead")


def test_a_process_whose_first_thread_has_ended_is_alive(nursery: Nursery) -> None:
    number = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if number is None:
        pytest.skip("the number of the system call is not known for this machine")
    child = nursery.python(FIRST_THREAD_ENDS.format(exit=number))
    eventually(lambda: state_of(child.pid) == "Z", within_s=20, what="the first thread ends")
    assert nursery.pids() == {child.pid}
    assert process_tree.kill(nursery.nonce) == []
    assert child.wait(20) == -signal.SIGKILL


def test_processes_that_replace_their_program_all_the_time_are_never_missed(nursery: Nursery) -> None:
    luggage = {f"VARIABLE_{number}": "x" for number in range(2000)}  # it takes the kernel a while to lay that out
    pids = {nursery.start("sh", "-c", RESTLESS, RESTLESS=RESTLESS, **luggage).pid for _ in range(3)}
    eventually(lambda: nursery.pids() == pids, within_s=20, what="all are there")
    for _ in range(50):
        assert {
            process.pid for process in process_tree._scan(f"{process_tree.VARIABLE}={nursery.nonce}".encode(), False)
        } == pids
    assert process_tree.kill(nursery.nonce) == []


def test_stopped_and_stubborn_processes_are_killed(nursery: Nursery) -> None:
    stubborn = nursery.start("sh", "-c", "trap '' TERM INT HUP QUIT; while :; do sleep 0.01; done")
    stopped = nursery.start("sleep", "600")
    stopped.send_signal(signal.SIGSTOP)
    eventually(lambda: {stubborn.pid, stopped.pid} <= nursery.pids(), within_s=20, what="both run")
    assert process_tree.kill(nursery.nonce) == []
    assert {stubborn.wait(20), stopped.wait(20)} == {-signal.SIGKILL}


def test_a_process_that_keeps_having_children_is_killed_with_all_of_them(
    nursery: Nursery, report: Callable[[str], None]
) -> None:
    nursery.python(BREEDER)
    eventually(lambda: len(nursery.pids()) > 100, within_s=20, what="a crowd")
    begun_at = time.monotonic()
    assert process_tree.kill(nursery.nonce, within_s=20) == []
    report(f"tree: a process that kept forking was gone, with all its children, after {time.monotonic() - begun_at:.2f} s")


def test_processes_that_are_gone_before_they_are_looked_at_are_killed(nursery: Nursery, report: Callable[[str], None]) -> None:
    bystanders = nursery.start(sys.executable, "-S", "-c", BYSTANDERS, **{process_tree.VARIABLE: ""})
    eventually(lambda: Path(f"/proc/{bystanders.pid}/comm").read_text() == "ready\n", within_s=60, what="many bystanders")
    reading, writing = os.pipe()
    with open(reading, "rb") as heads:
        nursery.python(HYDRA.format(life_s=0.003, alive=writing), inherits=(writing,))
        os.close(writing)
        assert heads.read(8) == b"." * 8
        begun_at = time.monotonic()
        assert process_tree.kill(nursery.nonce, within_s=30) == []
        report(f"tree: eight processes that kept replacing themselves were gone after {time.monotonic() - begun_at:.2f} s")
        assert select.select([heads], [], [], 0)[0], "somebody holds the pipe: a head is left"
        assert heads.read() == b""


def test_what_is_not_dead_in_time_is_named(nursery: Nursery) -> None:
    child = nursery.start("sleep", "600")
    eventually(nursery.pids, within_s=20, what="it runs")
    assert [process.pid for process in process_tree.kill(nursery.nonce, within_s=0)] == [child.pid]


def test_a_pid_that_has_changed_hands_gets_no_signal(nursery: Nursery) -> None:
    child = nursery.start("sleep", "600")
    (process,) = eventually(lambda: process_tree.living(nursery.nonce), within_s=20, what="it runs")
    earlier = process_tree.Process(child.pid, process.started - 1, process.parent)
    assert not earlier.send(signal.SIGKILL)
    assert child.poll() is None
    assert process.send(signal.SIGKILL)
    child.wait(20)
    assert not process.send(signal.SIGKILL)


def test_the_caller_never_counts(nursery: Nursery) -> None:
    script = (
        "from holdfast.runner.watchdog import process_tree; import sys; "
        f"sys.exit(len(process_tree.kill({nursery.nonce!r}, own=True)))"
    )
    assert nursery.start(sys.executable, "-c", script).wait(60) == 0


def test_descendants_of_the_caller_count_if_it_says_so(nursery: Nursery) -> None:
    unmarked = nursery.start("sleep", "600", **{process_tree.VARIABLE: ""})
    assert unmarked.pid in {process.pid for process in process_tree.living(nursery.nonce, own=True)}
    assert nursery.pids() == set()


def test_memory_that_processes_share_counts_once(nursery: Nursery) -> None:
    nursery.python(FAMILY)
    megabytes = 1024 * 1024
    eventually(lambda: len(nursery.pids()) == 5, within_s=20, what="a family of five")
    assert 50 * megabytes < process_tree.resident_bytes(nursery.nonce) < 100 * megabytes
    assert process_tree.resident_bytes("nobody") == 0
