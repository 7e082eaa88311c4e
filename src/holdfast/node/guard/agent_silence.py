"""Silence of an agent, as its guard measures it.

A guard kills an agent that hangs, not an agent that is slow because the machine is overloaded. So two kinds of time do not
count: the time in which the agent waited for a CPU, and the time until its first heartbeat, for which there is a longer limit.
Standard library only.
"""

from collections.abc import Callable
from pathlib import Path

POLL_S = 1.0
STARTUP_LIMIT_S = 300.0
"""An agent that has sent no heartbeat yet is killed after this time: on a busy machine, loading the program takes long."""


def read_cpu_wait_s(pid: int) -> float:
    """Return the seconds that the main thread of a process has been runnable without a CPU. Return 0 if that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class AgentSilence:
    def __init__(self, agent_pid: int, read_cpu_wait_s: Callable[[int], float] = read_cpu_wait_s) -> None:
        self._pid = agent_pid
        self._read_cpu_wait_s = read_cpu_wait_s
        self._heartbeat_received = False
        self._cpu_wait_s = read_cpu_wait_s(agent_pid)
        self.duration_s = 0.0
        """Seconds since the last heartbeat in which the agent could have sent one."""

    def on_heartbeat(self) -> None:
        self._heartbeat_received = True
        self.reset()

    def on_silent_poll(self) -> None:
        """Count a poll of `POLL_S` seconds without a heartbeat, less the time in which the agent waited for a CPU.

        Polls are counted, not clock time: while the whole machine is suspended, the agent is not to blame for its silence.
        """
        cpu_wait_s = self._read_cpu_wait_s(self._pid)
        self.duration_s += max(0.0, POLL_S - max(0.0, cpu_wait_s - self._cpu_wait_s))
        self._cpu_wait_s = cpu_wait_s

    def reset(self) -> None:
        self.duration_s = 0.0
        self._cpu_wait_s = self._read_cpu_wait_s(self._pid)

    def exceeds(self, limit_s: float) -> bool:
        return self.duration_s > (limit_s if self._heartbeat_received else max(limit_s, STARTUP_LIMIT_S))
