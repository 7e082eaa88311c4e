"""Identity of a process by pid and start time; a reused pid belongs to another process."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.local.process_identity import ProcessIdentity
from tests.harness.waiting import wait_until

IMPOSSIBLE_PID = 2**22 + 1


@contextlib.contextmanager
def start_child(script: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Start a process that runs the script, prints `ready` and waits. Kill it at the end of the block."""
    program = f"import signal, sys\n{script}\nprint('ready', flush=True)\nsignal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def identity_of(process: "subprocess.Popen[str]") -> ProcessIdentity:
    identity = ProcessIdentity.read(process.pid)
    assert identity is not None
    return identity


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_identity_of_a_running_process_is_stable() -> None:
    own = ProcessIdentity.read(os.getpid())
    assert own is not None
    assert own.is_alive
    assert ProcessIdentity.read(os.getpid()) == own


def test_later_process_has_a_later_start_time() -> None:
    own = ProcessIdentity.read(os.getpid())
    with start_child() as process:
        assert own is not None
        assert identity_of(process).started >= own.started


@pytest.mark.parametrize("pid", [0, IMPOSSIBLE_PID])
def test_missing_process_has_no_identity(pid: int) -> None:
    assert ProcessIdentity.read(pid) is None
    assert not ProcessIdentity(pid, 0).is_alive


def test_reused_pid_gets_no_signal() -> None:
    with start_child() as process:
        current = identity_of(process)
        previous = ProcessIdentity(current.pid, current.started - 1)
        assert not previous.is_alive
        assert not previous.send_signal(signal.SIGKILL)
        assert process.poll() is None, "the current process got no signal"
        assert current.is_alive


def test_zombie_is_dead() -> None:
    with start_child() as process:
        identity = identity_of(process)
        process.kill()
        wait_until(lambda: read_state(process.pid) == "Z", 20, "the process is a zombie")
        assert ProcessIdentity.read(process.pid) is None
        assert not identity.is_alive
        assert not identity.send_signal(signal.SIGTERM)


def test_reaped_process_is_dead() -> None:
    with start_child() as process:
        identity = identity_of(process)
        process.kill()
        process.wait()
        assert not identity.is_alive
        assert not identity.send_signal(signal.SIGTERM)


def test_paused_process_is_alive() -> None:
    with start_child() as process:
        identity = identity_of(process)
        assert identity.send_signal(signal.SIGSTOP)
        wait_until(lambda: read_state(process.pid) == "T", 20, "the process is paused")
        assert identity.is_alive


def test_signal_reaches_the_process() -> None:
    with start_child("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))") as process:
        assert identity_of(process).send_signal(signal.SIGTERM)
        assert process.wait(20) == 7


@pytest.mark.parametrize("comm", [") Z 1 (", "a b c", "))) 0 0"])
def test_command_name_with_special_characters_is_parsed(comm: str) -> None:
    with start_child(f"open('/proc/self/comm', 'w').write({comm!r})") as process:
        assert f"({comm})" in Path(f"/proc/{process.pid}/stat").read_text()
        identity = identity_of(process)
        assert identity.is_alive
        assert identity.started > 0


@pytest.mark.parametrize("pid", [0, -1])
def test_invalid_pid_gets_no_signal(pid: int) -> None:
    """`holdfast down` uses these values for a cluster.json without a supervisor."""
    assert not ProcessIdentity(pid, 0).send_signal(signal.SIGTERM)
