"""Search for and kill of the processes of one attempt, with real processes that try to escape."""

import contextlib
import os
import platform
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.proc_filesystem import Process
from tests.harness.waiting import wait_until

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
"""Program that replaces itself by exec in a loop."""

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
"""Eight short-lived processes, each of which starts its successor. They keep a pipe open while one of them is alive."""

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
"""Many processes, so that reading all of them takes longer than a short-lived process lives. They end with the first."""

BREEDER = """
import os, time
until = time.monotonic() + 5
while time.monotonic() < until:
    if os.fork() == 0:
        os.setsid()
        os.fork()
        time.sleep(600)
"""


NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class MarkedProcesses:
    """Starter of processes with one nonce; `kill_all` asserts that none is left."""

    def __init__(self) -> None:
        self.nonce = secrets.token_hex(8)
        self.children: list[subprocess.Popen[bytes]] = []

    def start(
        self, *command: str, inherits: tuple[int, ...] = (), variables: Mapping[str, str] = NO_VARIABLES
    ) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, NONCE: self.nonce, **variables}
        child = subprocess.Popen(command, env=environment, pass_fds=inherits)
        self.children.append(child)
        return child

    def python(self, script: str, inherits: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.start(sys.executable, "-S", "-c", script, inherits=inherits)

    def pids(self) -> set[int]:
        return {process.pid for process in process_tree.list_processes(self.nonce)}

    def kill_all(self) -> None:
        left = process_tree.kill_tree(self.nonce, timeout_s=20)
        for child in self.children:
            child.kill()
            child.wait()
        assert not left


def state_of(pid: int) -> str:
    """Return the state letter of a process, or an empty string if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture
def tree_processes() -> Iterator[MarkedProcesses]:
    tree_processes = MarkedProcesses()
    try:
        yield tree_processes
    finally:
        tree_processes.kill_all()


def test_process_is_found_after_it_left_its_group_session_and_parent(tree_processes: MarkedProcesses) -> None:
    first = tree_processes.python(DAEMON)
    first.wait()

    def only_the_daemon() -> int | None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            (pid,) = tree_processes.pids()
            return pid if Path(f"/proc/{pid}/comm").read_text() == "daemon\n" else None
        return None

    daemon = wait_until(only_the_daemon, within_s=20, what="only the daemon is left")
    assert os.getsid(daemon) not in (os.getsid(0), first.pid)
    assert process_tree.kill_tree(tree_processes.nonce) == []
    assert tree_processes.pids() == set()


def test_only_an_exact_variable_counts_as_mark(tree_processes: MarkedProcesses) -> None:
    for variables in (
        {NONCE: tree_processes.nonce + "0"},
        {NONCE: tree_processes.nonce[:-1]},
        {NONCE: "", "X" + NONCE: tree_processes.nonce},
        {NONCE: "", "OTHER": f"{NONCE}={tree_processes.nonce}"},
    ):
        tree_processes.start("sleep", "600", variables=variables)
    argument = f"{NONCE}={tree_processes.nonce}"
    tree_processes.start(sys.executable, "-S", "-c", "import time; time.sleep(600)", argument, variables={NONCE: ""})
    exact = tree_processes.start("sleep", "600")
    wait_until(lambda: tree_processes.pids() == {exact.pid}, within_s=20, what="only the exact mark counts")
    assert process_tree.kill_tree(tree_processes.nonce) == []
    assert [child.poll() for child in tree_processes.children] == [None] * 5 + [-signal.SIGKILL]


def test_zombie_does_not_count(tree_processes: MarkedProcesses) -> None:
    child = tree_processes.start("sleep", "600")
    child.send_signal(signal.SIGKILL)  # without waiting for it
    wait_until(lambda: tree_processes.pids() == set(), within_s=20, what="a dead process does not count")
    assert Path(f"/proc/{child.pid}").exists()


def test_child_with_an_empty_environment_is_found_through_its_parent(tree_processes: MarkedProcesses) -> None:
    parent = tree_processes.start("sh", "-c", "env -i sleep 600 & wait")
    wait_until(lambda: len(tree_processes.pids()) == 2, within_s=20, what="both are found")
    child = next(pid for pid in tree_processes.pids() if pid != parent.pid)
    wait_until(lambda: Path(f"/proc/{child}/environ").read_bytes() == b"", within_s=20, what="the environment is empty")
    assert tree_processes.pids() == {parent.pid, child}
    assert process_tree.kill_tree(tree_processes.nonce) == []
    wait_until(lambda: state_of(child) in "Z", within_s=20, what="the child is dead")


def test_process_whose_main_thread_has_ended_counts(tree_processes: MarkedProcesses) -> None:
    number = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if number is None:
        pytest.skip("the number of the system call is not known for this machine")
    child = tree_processes.python(FIRST_THREAD_ENDS.format(exit=number))
    wait_until(lambda: state_of(child.pid) == "Z", within_s=20, what="the first thread ends")
    assert tree_processes.pids() == {child.pid}
    assert process_tree.kill_tree(tree_processes.nonce) == []
    assert child.wait(20) == -signal.SIGKILL


@pytest.mark.slow
def test_processes_in_permanent_exec_are_never_missed(tree_processes: MarkedProcesses) -> None:
    padding = {f"VARIABLE_{number}": "x" for number in range(2000)}  # makes exec slower
    pids = {tree_processes.start("sh", "-c", RESTLESS, variables={"RESTLESS": RESTLESS, **padding}).pid for _ in range(3)}
    wait_until(lambda: tree_processes.pids() == pids, within_s=20, what="all are there")
    for _ in range(50):
        assert {process.pid for process in process_tree._Scan(tree_processes.nonce).run()} == pids
    assert process_tree.kill_tree(tree_processes.nonce) == []


def test_stopped_and_signal_ignoring_processes_are_killed(tree_processes: MarkedProcesses) -> None:
    stubborn = tree_processes.start("sh", "-c", "trap '' TERM INT HUP QUIT; while :; do sleep 0.01; done")
    stopped = tree_processes.start("sleep", "600")
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: {stubborn.pid, stopped.pid} <= tree_processes.pids(), within_s=20, what="both run")
    assert process_tree.kill_tree(tree_processes.nonce) == []
    assert {stubborn.wait(20), stopped.wait(20)} == {-signal.SIGKILL}


def test_process_that_keeps_forking_is_killed_with_all_its_children(
    tree_processes: MarkedProcesses, report: Callable[[str], None]
) -> None:
    tree_processes.python(BREEDER)
    wait_until(lambda: len(tree_processes.pids()) > 100, within_s=20, what="a crowd")
    begun_at = time.monotonic()
    assert process_tree.kill_tree(tree_processes.nonce, timeout_s=20) == []
    report(f"tree: a process that kept forking was gone, with all its children, after {time.monotonic() - begun_at:.2f} s")


def test_processes_that_end_before_they_are_read_are_killed(
    tree_processes: MarkedProcesses, report: Callable[[str], None]
) -> None:
    bystanders = tree_processes.start(sys.executable, "-S", "-c", BYSTANDERS, variables={NONCE: ""})
    wait_until(lambda: Path(f"/proc/{bystanders.pid}/comm").read_text() == "ready\n", within_s=60, what="many bystanders")
    reading, writing = os.pipe()
    with open(reading, "rb") as heads:
        tree_processes.python(HYDRA.format(life_s=0.003, alive=writing), inherits=(writing,))
        os.close(writing)
        assert heads.read(8) == b"." * 8
        begun_at = time.monotonic()
        assert process_tree.kill_tree(tree_processes.nonce, timeout_s=30) == []
        report(f"tree: eight processes that kept replacing themselves were gone after {time.monotonic() - begun_at:.2f} s")
        assert select.select([heads], [], [], 0)[0], "somebody holds the pipe: a head is left"
        assert heads.read() == b""


def test_processes_left_after_the_timeout_are_returned(tree_processes: MarkedProcesses) -> None:
    child = tree_processes.start("sleep", "600")
    wait_until(tree_processes.pids, within_s=20, what="it runs")
    assert [process.pid for process in process_tree.kill_tree(tree_processes.nonce, timeout_s=0)] == [child.pid]


def test_reused_pid_gets_no_signal(tree_processes: MarkedProcesses) -> None:
    child = tree_processes.start("sleep", "600")
    (process,) = wait_until(lambda: process_tree.list_processes(tree_processes.nonce), within_s=20, what="it runs")
    earlier = Process(child.pid, process.started - 1, process.parent)
    assert not earlier.send_signal(signal.SIGKILL)
    assert child.poll() is None
    assert process.send_signal(signal.SIGKILL)
    child.wait(20)
    assert not process.send_signal(signal.SIGKILL)


def test_caller_is_never_part_of_the_tree(tree_processes: MarkedProcesses) -> None:
    script = (
        "from holdfast.runner.watchdog import process_tree; import sys; "
        f"sys.exit(len(process_tree.kill_tree({tree_processes.nonce!r}, include_descendants=True)))"
    )
    assert tree_processes.start(sys.executable, "-c", script).wait(60) == 0


def test_unmarked_descendants_count_with_include_descendants(tree_processes: MarkedProcesses) -> None:
    unmarked = tree_processes.start("sleep", "600", variables={NONCE: ""})
    assert unmarked.pid in {
        process.pid for process in process_tree.list_processes(tree_processes.nonce, include_descendants=True)
    }
    assert tree_processes.pids() == set()


def test_shared_memory_counts_once(tree_processes: MarkedProcesses) -> None:
    tree_processes.python(FAMILY)
    megabytes = 1024 * 1024
    wait_until(lambda: len(tree_processes.pids()) == 5, within_s=20, what="a family of five")
    assert 50 * megabytes < process_tree.resident_bytes(tree_processes.nonce) < 100 * megabytes
    assert process_tree.resident_bytes("nobody") == 0
