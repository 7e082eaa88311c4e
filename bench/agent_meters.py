"""Measurements of an agent from outside: the work of its process, and the silence of its event loop."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.failover import RestartableNode

PROBE_S = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """Duration of one step, and the work of the leading agent in it."""

    taken_s: float
    cpu_s: float
    """CPU time of the agent. Unlike the duration, it does not depend on other programs."""
    jobs_read: int

    def __str__(self) -> str:
        return f"{self.taken_s:.1f} s (CPU {self.cpu_s:.1f} s, {self.jobs_read:,} jobs read)"


class SilenceProbe:
    """Thread that polls the HTTP API of an agent and records the longest gap. The event loop of the agent serves the API."""

    def __init__(self, node: RestartableNode) -> None:
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.longest_s = 0.0

    def __enter__(self) -> "SilenceProbe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _poll(self) -> None:
        answered: tuple[int | None, float] | None = None
        while not self._stop.wait(PROBE_S):
            agent = self._node.node.agent_pid()
            has_answered = bool(self._node.node.status())
            now = time.monotonic()
            if answered is not None and (has_answered or agent != answered[0]):
                # Includes the silence before the end of an agent that was killed, but not the start of the next one.
                self.longest_s = max(self.longest_s, now - answered[1])
                answered = None
            if has_answered:
                answered = (agent, now)


class WorkMeter:
    """Work of an agent since the construction. If another agent has replaced it, only the work of that one counts."""

    def __init__(self, node: RestartableNode) -> None:
        self._node = node
        self._agent = node.agent_pid()
        self._cpu_s, self._jobs_read = _cpu_s(self._agent), leader_work(node).get("jobs_read", 0)

    def finish(self, taken_s: float) -> Step:
        agent = self._node.agent_pid()
        is_same = agent == self._agent
        cpu_s, jobs_read = _cpu_s(agent), leader_work(self._node).get("jobs_read", 0)
        return Step(taken_s, cpu_s - (self._cpu_s if is_same else 0), jobs_read - (self._jobs_read if is_same else 0))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leader_work(node: RestartableNode) -> dict[str, Any]:
    return node.node.status().get("work") or {}
