"""Silence of an agent: time without a CPU does not count."""

import os
import signal
import subprocess
import sys
import time

import pytest

from holdfast.node.guard import agent_silence
from holdfast.node.guard.agent_silence import POLL_S, AgentSilence, read_cpu_wait_s
from tests.harness.waiting import wait_until

BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def test_time_without_a_cpu_does_not_count() -> None:
    cpu_wait_s = 0.0
    silence = AgentSilence(1, lambda _: cpu_wait_s)
    silence.on_silent_poll()
    assert silence.duration_s == POLL_S
    cpu_wait_s = 0.75 * POLL_S
    silence.on_silent_poll()
    assert silence.duration_s == pytest.approx(1.25 * POLL_S)
    cpu_wait_s = 100.0
    silence.on_silent_poll()
    assert silence.duration_s == pytest.approx(1.25 * POLL_S), "a long wait never makes the silence shorter"


def test_limit_before_the_first_heartbeat_is_longer() -> None:
    silence = AgentSilence(os.getpid())
    silence.duration_s = 100.0
    assert not silence.exceeds(30.0)
    silence.duration_s = agent_silence.STARTUP_LIMIT_S + 1
    assert silence.exceeds(30.0)
    silence.on_heartbeat()
    assert not silence.exceeds(30.0)
    silence.duration_s = 31.0
    assert silence.exceeds(30.0)


def test_cpu_wait_of_a_missing_process_is_unknown() -> None:
    assert read_cpu_wait_s(2**22 - 1) == 0.0


@pytest.mark.slow
def test_starved_process_waits_for_a_cpu_and_a_stopped_one_does_not() -> None:
    """Two busy processes on one core: each of them waits about half of the time. A stopped process does not wait for a CPU."""
    core = min(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(core)]) for _ in range(2)]
    try:
        wait_until(lambda: read_cpu_wait_s(busy[0].pid) > 0.5, 60, "the starved process has waited for a CPU")
        busy[0].send_signal(signal.SIGSTOP)
        wait_until(lambda: _is_stopped(busy[0].pid), 10, "the process is stopped")
        before_s = read_cpu_wait_s(busy[0].pid)
        time.sleep(0.3)
        assert read_cpu_wait_s(busy[0].pid) == before_s
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"
