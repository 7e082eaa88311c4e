"""A child process that ends with its parent. Uses real, small processes."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.embedded import with_parent_death_signal
from tests.harness.waiting import wait_until

PARENT = """
import signal, subprocess, sys
from holdfast.zk.embedded import with_parent_death_signal
child = subprocess.Popen(with_parent_death_signal(["sleep", "600"], signal.SIGKILL))
sys.stdout.write(f"{child.pid}\\n")
sys.stdout.flush()
signal.pause()
"""


def program_of(pid: int) -> str:
    """Return the program of a process, or an empty string after its end."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except FileNotFoundError:
        return ""


def test_child_runs_the_command_with_the_same_pid_and_ends_with_its_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            wait_until(lambda: program_of(pid) == "sleep", within_s=20, what="the child runs its command")
        finally:
            parent.kill()
    wait_until(lambda: program_of(pid) == "", within_s=20, what="the child ends")


def test_child_whose_parent_has_already_ended_does_not_run_the_command(tmp_path: Path) -> None:
    command = with_parent_death_signal(["touch", str(tmp_path / "ran")], signal.SIGKILL)
    # Simulate a parent that has ended: the child's real parent is not the given pid.
    command[command.index(str(os.getpid()))] = "1"
    assert subprocess.run(command, check=False).returncode == 75
    assert not (tmp_path / "ran").exists()


def test_child_has_the_same_ignored_signals_as_one_started_directly() -> None:
    show = ["grep", "^SigIgn", "/proc/self/status"]
    direct = subprocess.run(show, capture_output=True, check=True).stdout
    assert subprocess.run(with_parent_death_signal(show, signal.SIGKILL), capture_output=True, check=True).stdout == direct


def test_missing_command_is_named_in_the_error() -> None:
    done = subprocess.run(
        with_parent_death_signal(["no-such-command"], signal.SIGKILL), capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert done.stderr == "cannot run no-such-command: No such file or directory\n"


def test_start_from_another_thread_is_refused() -> None:
    refusals: list[Refused] = []

    def start() -> None:
        with pytest.raises(Refused, match="sleep must be started from the main thread") as refused:
            with_parent_death_signal(["sleep", "1"], signal.SIGKILL)
        refusals.append(refused.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert refusals
