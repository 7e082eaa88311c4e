"""Processes by pid and start time: a pid that was given to somebody else is nobody we know."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.local.process_identity import ProcessName
from tests.harness.waiting import eventually

PID_THAT_CANNOT_BE = 2**22 + 1


@contextlib.contextmanager
def child(script: str = "") -> Iterator["subprocess.Popen[str]"]:
    """A process that says `ready` once it has done what the script says, and then waits to be ended."""
    program = f"import signal, sys\n{script}\nprint('ready', flush=True)\nsignal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def name_of(process: "subprocess.Popen[str]") -> ProcessName:
    name = ProcessName.of(process.pid)
    assert name is not None
    return name


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_living_process_has_a_name_that_stays() -> None:
    own = ProcessName.of(os.getpid())
    assert own is not None
    assert own.alive
    assert ProcessName.of(os.getpid()) == own


def test_processes_started_later_have_later_names() -> None:
    own = ProcessName.of(os.getpid())
    with child() as process:
        assert own is not None
        assert name_of(process).started >= own.started


@pytest.mark.parametrize("pid", [0, PID_THAT_CANNOT_BE])
def test_no_process_has_no_name(pid: int) -> None:
    assert ProcessName.of(pid) is None
    assert not ProcessName(pid, 0).alive


def test_a_pid_that_was_given_to_another_process_is_not_the_one_that_was_meant() -> None:
    with child() as process:
        now = name_of(process)
        before = ProcessName(now.pid, now.started - 1)
        assert not before.alive
        assert not before.send(signal.SIGKILL)
        assert process.poll() is None, "and the other process is left alone"
        assert now.alive


def test_a_dead_process_that_nobody_has_waited_for_is_dead() -> None:
    with child() as process:
        name = name_of(process)
        process.kill()
        eventually(lambda: state_of(process.pid) == "Z", 20, "its parent has not waited for it")
        assert ProcessName.of(process.pid) is None
        assert not name.alive
        assert not name.send(signal.SIGTERM)


def test_a_dead_process_that_was_waited_for_is_dead() -> None:
    with child() as process:
        name = name_of(process)
        process.kill()
        process.wait()
        assert not name.alive
        assert not name.send(signal.SIGTERM)


def test_a_paused_process_is_alive() -> None:
    with child() as process:
        name = name_of(process)
        assert name.send(signal.SIGSTOP)
        eventually(lambda: state_of(process.pid) == "T", 20, "it is paused")
        assert name.alive


def test_a_signal_reaches_the_process_it_was_meant_for() -> None:
    with child("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))") as process:
        assert name_of(process).send(signal.SIGTERM)
        assert process.wait(20) == 7


@pytest.mark.parametrize("comm", [") Z 1 (", "a b c", "))) 0 0"])
def test_a_process_may_call_itself_what_it_likes(comm: str) -> None:
    with child(f"open('/proc/self/comm', 'w').write({comm!r})") as process:
        assert f"({comm})" in Path(f"/proc/{process.pid}/stat").read_text()
        name = name_of(process)
        assert name.alive
        assert name.started > 0


@pytest.mark.parametrize("pid", [0, -1])
def test_a_number_that_is_no_pid_gets_no_signal(pid: int) -> None:
    """What `holdfast down` makes of a cluster.json without a supervisor."""
    assert not ProcessName(pid, 0).send(signal.SIGTERM)
