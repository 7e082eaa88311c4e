"""The guard, with real processes. Its agents here are small scripts that do what agents do at their worst."""

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

from holdfast.local.process_identity import ProcessName
from tests.harness.waiting import eventually

GUARD = "import sys; from pathlib import Path; from holdfast.node import guard; guard.SILENCE_S_MIN = 2; guard.STOP_S = 2; "
GUARD += "sys.exit(guard.Guard(Path(sys.argv[1]), sys.argv[2:]).run())"


class Guarded:
    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self.directory = directory
        self.process = process

    def agent(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            pid: int | None = json.loads((self.directory / "guard.json").read_text())["agent_pid"]
            return pid
        return None

    def running_agent(self) -> int:
        """The pid of an agent that has got as far as its own first words."""
        return eventually(lambda: self.agent() if self.lives() else None, 20, "an agent runs") or 0

    def lives(self) -> list[str]:
        file = self.directory / "lives"
        return file.read_text().split() if file.exists() else []

    def events(self) -> list[str]:
        self.process.wait(30)
        assert self.process.stderr is not None
        return [json.loads(line)["event"] for line in self.process.stderr if line.startswith("{")]


@contextlib.contextmanager
def guarded(directory: Path, agent: str) -> Iterator[Guarded]:
    script = directory / "agent.py"
    prelude = (
        "import os, signal, sys, time; open('lives', 'a').write(f'{os.getpid()} '); fd = int(os.environ['HOLDFAST_GUARD_FD'])"
    )
    script.write_text(f"{prelude}\n{textwrap.dedent(agent)}")
    process = subprocess.Popen(
        [sys.executable, "-c", GUARD, str(directory), sys.executable, str(script)],
        cwd=directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            yield Guarded(directory, process)
        finally:
            process.kill()
            process.wait()
            # These agents do not notice that their guard is gone. Real ones do.
            for pid in Guarded(directory, process).lives():
                with contextlib.suppress(OSError):
                    if str(script) in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(int(pid), signal.SIGKILL)


ALIVE = "while True: os.write(fd, b'.'); time.sleep(0.2)"


def test_an_agent_that_is_killed_is_replaced_at_once(tmp_path: Path) -> None:
    with guarded(tmp_path, ALIVE) as guard:
        first = guard.running_agent()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: len(guard.lives()) == 2, 20, "a second agent")
        assert guard.agent() not in (first, None)


def test_an_agent_that_hangs_is_killed_and_replaced(tmp_path: Path) -> None:
    """A library's threads keep a session alive while the event loop hangs: only signs of life from the loop count."""
    with guarded(tmp_path, "time.sleep(600)") as guard:
        eventually(lambda: len(guard.lives()) >= 2, 30, "the silent agent was replaced")
        first = int(guard.lives()[0])
        assert ProcessName.of(first) is None


def test_the_end_of_the_stream_is_not_death(tmp_path: Path) -> None:
    """An agent that closes its end lives on: taking it for dead would close a living session and start a second agent."""
    agent = "os.close(fd); time.sleep(600)"
    with guarded(tmp_path, f"open('closed', 'w'); {agent}") as guard:
        first = guard.running_agent()
        eventually((tmp_path / "closed").exists, 20, "the agent has closed its end")
        guard.process.send_signal(signal.SIGCHLD)  # wakes the guard: it looks, and must find the agent alive
        eventually(lambda: _idle(guard.process.pid), 10, "the guard has looked")
        assert guard.lives() == [str(first)]
        assert ProcessName.of(first) is not None


def _idle(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_an_agent_that_can_never_work_ends_its_guard(tmp_path: Path) -> None:
    with guarded(tmp_path, "sys.exit(78)") as guard:
        assert guard.process.wait(20) == 78
        assert len(guard.lives()) == 1


def test_an_agent_that_keeps_failing_is_started_less_and_less_often(tmp_path: Path) -> None:
    with guarded(tmp_path, "sys.exit(1)") as guard:
        eventually(lambda: len(guard.lives()) >= 3, 30, "three tries")
        guard.process.send_signal(signal.SIGTERM)
        assert guard.process.wait(20) == 0, "a guard that is waiting stops when it is asked to"
        assert "agent ended" in guard.events()


@pytest.mark.parametrize("obedient", [True, False])
def test_a_guard_that_is_asked_to_stop_leaves_no_agent_behind(tmp_path: Path, obedient: bool) -> None:
    handler = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))" if obedient else "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    )
    with guarded(tmp_path, f"{handler}\nopen('deaf', 'w')\n{ALIVE}") as guard:
        pid = guard.running_agent()
        eventually((tmp_path / "deaf").exists, 20, "the agent has its handler")
        guard.process.send_signal(signal.SIGTERM)
        assert guard.process.wait(20) == 0
        assert ProcessName.of(pid) is None
        assert guard.lives() == [str(pid)]
