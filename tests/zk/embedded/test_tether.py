"""A child process that cannot outlive its parent. Real processes, but small ones."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.embedded import tethered, tethered_process
from tests.harness.waiting import eventually

PARENT = """
import signal, subprocess, sys
from holdfast.zk.embedded import tethered
child = subprocess.Popen(tethered(["sleep", "600"], signal.SIGKILL))
sys.stdout.write(f"{child.pid}\\n")
sys.stdout.flush()
signal.pause()
"""


def name_of(pid: int) -> str:
    """The program that a process runs, or nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except FileNotFoundError:
        return ""


def test_a_child_becomes_its_command_under_the_same_pid_and_ends_with_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            eventually(lambda: name_of(pid) == "sleep", within_s=20, what="the child runs its command")
        finally:
            parent.kill()
    eventually(lambda: name_of(pid) == "", within_s=20, what="the child ends")


def test_a_child_whose_parent_is_gone_already_never_runs_its_command(tmp_path: Path) -> None:
    command = tethered(["touch", str(tmp_path / "ran")], signal.SIGKILL)
    # As if the parent had ended in between: the child's real parent is another process.
    command[command.index(str(os.getpid()))] = "1"
    assert subprocess.run(command, check=False).returncode == 75
    assert not (tmp_path / "ran").exists()


def test_a_child_gets_the_signals_as_if_it_had_been_started_directly() -> None:
    show = ["grep", "^SigIgn", "/proc/self/status"]
    direct = subprocess.run(show, capture_output=True, check=True).stdout
    assert subprocess.run(tethered(show, signal.SIGKILL), capture_output=True, check=True).stdout == direct


def test_a_command_that_does_not_exist_is_named() -> None:
    done = subprocess.run(tethered(["no-such-command"], signal.SIGKILL), capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr == "cannot run no-such-command: No such file or directory\n"


def test_only_the_main_thread_may_start_one() -> None:
    refusals: list[Refused] = []

    def start() -> None:
        with pytest.raises(Refused, match="sleep must be started from the main thread") as refused:
            tethered_process.tethered(["sleep", "1"], signal.SIGKILL)
        refusals.append(refused.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert refusals
