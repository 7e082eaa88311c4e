"""Guard with real processes. The agents are small scripts that hang, crash or ignore signals."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.local.process_identity import ProcessIdentity
from tests.harness.waiting import wait_until

GUARD = """
import sys
from pathlib import Path
from holdfast.node.guard import agent_silence, guard_process as guard
guard.SILENCE_LIMIT_S_MIN = guard.STOP_TIMEOUT_S = 2
agent_silence.STARTUP_LIMIT_S = {startup_limit_s}
sys.exit(guard.Guard(Path(sys.argv[1]), sys.argv[2:]).run())
"""
PRELUDE = """
import os, signal, sys, time
open('agent-pids', 'a').write(f'{os.getpid()} ')
fd = int(os.environ['HOLDFAST_GUARD_FD'])
"""


class RunningGuard:
    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self.directory = directory
        self.process = process

    def agent(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            pid: int | None = json.loads((self.directory / "guard.json").read_text())["agent_pid"]
            return pid
        return None

    def running_agent(self) -> int:
        """Return the pid of the agent, once it has started its script."""
        return wait_until(lambda: self.agent() if self.agent_pids() else None, 20, "an agent runs") or 0

    def agent_pids(self) -> list[str]:
        file = self.directory / "agent-pids"
        return file.read_text().split() if file.exists() else []

    def events(self) -> list[str]:
        self.process.wait(30)
        assert self.process.stderr is not None
        return [json.loads(line)["event"] for line in self.process.stderr if line.startswith("{")]


@contextlib.contextmanager
def start_guard(directory: Path, agent: str, *, startup_limit_s: float = 2) -> Iterator[RunningGuard]:
    script = directory / "agent.py"
    script.write_text(f"{PRELUDE}\n{textwrap.dedent(agent)}")
    process = subprocess.Popen(
        [sys.executable, "-c", GUARD.format(startup_limit_s=startup_limit_s), str(directory), sys.executable, str(script)],
        cwd=directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            yield RunningGuard(directory, process)
        finally:
            process.kill()
            process.wait()
            # Unlike real agents, these scripts do not exit with their guard.
            for pid in RunningGuard(directory, process).agent_pids():
                with contextlib.suppress(OSError):
                    if str(script) in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(int(pid), signal.SIGKILL)


SEND_HEARTBEATS = "while True: os.write(fd, b'.'); time.sleep(0.2)"


def test_killed_agent_is_replaced_at_once(tmp_path: Path) -> None:
    with start_guard(tmp_path, SEND_HEARTBEATS) as guard:
        first = guard.running_agent()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: len(guard.agent_pids()) == 2, 20, "a second agent runs")
        assert guard.agent() not in (first, None)


@pytest.mark.slow
def test_hanging_agent_is_killed_and_replaced(tmp_path: Path) -> None:
    """Only heartbeats of the event loop count: the threads of a library keep the session alive while the loop hangs."""
    with start_guard(tmp_path, "time.sleep(600)") as guard:
        wait_until(lambda: len(guard.agent_pids()) >= 2, 30, "the silent agent was replaced")
        first = int(guard.agent_pids()[0])
        assert ProcessIdentity.read(first) is None


@pytest.mark.slow
def test_agent_that_is_still_starting_is_not_killed(tmp_path: Path) -> None:
    """The limit for silence passes twice before the first heartbeat, as on an overloaded machine."""
    agent = f"time.sleep(5)\nopen('started', 'w')\n{SEND_HEARTBEATS}"
    with start_guard(tmp_path, agent, startup_limit_s=60) as guard:
        wait_until((tmp_path / "started").exists, 60, "the first agent has started")
        assert len(guard.agent_pids()) == 1


@pytest.mark.slow
def test_agent_that_hangs_after_its_first_heartbeat_is_killed_within_the_shorter_limit(tmp_path: Path) -> None:
    with start_guard(tmp_path, "os.write(fd, b'.'); time.sleep(600)", startup_limit_s=600) as guard:
        wait_until(lambda: len(guard.agent_pids()) >= 2, 30, "the silent agent was replaced")


def test_agent_that_closes_its_socket_is_not_treated_as_dead(tmp_path: Path) -> None:
    """Otherwise the guard would close the session of a running agent and start a second one."""
    agent = "os.close(fd); time.sleep(600)"
    with start_guard(tmp_path, f"open('closed', 'w'); {agent}") as guard:
        first = guard.running_agent()
        wait_until((tmp_path / "closed").exists, 20, "the agent has closed its socket")
        guard.process.send_signal(signal.SIGCHLD)  # wakes the guard, which must find the agent alive
        wait_until(lambda: is_sleeping(guard.process.pid), 10, "the guard has checked the agent")
        assert guard.agent_pids() == [str(first)]
        assert ProcessIdentity.read(first) is not None


def is_sleeping(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_guard_exits_when_the_agent_cannot_run(tmp_path: Path) -> None:
    with start_guard(tmp_path, "sys.exit(78)") as guard:
        assert guard.process.wait(20) == 78
        assert len(guard.agent_pids()) == 1


@pytest.mark.slow
def test_failing_agent_is_restarted_with_growing_delays(tmp_path: Path) -> None:
    with start_guard(tmp_path, "sys.exit(1)") as guard:
        wait_until(lambda: len(guard.agent_pids()) >= 3, 30, "three agents were started")
        guard.process.send_signal(signal.SIGTERM)
        assert guard.process.wait(20) == 0, "a guard that waits for a restart stops on SIGTERM"
        assert "agent ended" in guard.events()


@pytest.mark.slow
@pytest.mark.parametrize("handles_sigterm", [True, False])
def test_stopped_guard_leaves_no_agent_behind(tmp_path: Path, handles_sigterm: bool) -> None:
    handler = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
        if handles_sigterm
        else "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    )
    with start_guard(tmp_path, f"{handler}\nopen('ready', 'w')\n{SEND_HEARTBEATS}") as guard:
        pid = guard.running_agent()
        wait_until((tmp_path / "ready").exists, 20, "the agent has installed its signal handler")
        guard.process.send_signal(signal.SIGTERM)
        assert guard.process.wait(20) == 0
        assert ProcessIdentity.read(pid) is None
        assert guard.agent_pids() == [str(pid)]
