"""Timings of the cluster under attack. Pure."""

from dataclasses import dataclass
from typing import Any

from tests.chaos.catalogue import Durations

SYNC_LIMIT = 5


@dataclass(frozen=True, slots=True)
class ChaosTiming:
    """Durations of the cluster under attack, in seconds."""

    session_timeout_s: float
    margin_s: float
    tick_s: float
    heartbeat_s: float
    kill_s: float

    @property
    def durations(self) -> Durations:
        return Durations(self.session_timeout_s, self.margin_s)

    @property
    def harmless_s(self) -> float:
        """Length of a stop that ends before any deadline: the last confirmation is at most a heartbeat and two ticks old."""
        return self.durations.deadline_s - self.heartbeat_s - 2 * self.tick_s

    @property
    def move_s(self) -> float:
        """Time after which the jobs of a lost node start elsewhere, apart from the time that processes need.

        The session of the runner expires, the leader waits for a margin, and a promise of a session timeout and a margin
        runs out (decision 41).
        """
        return 2 * self.session_timeout_s + 2 * self.margin_s + 4 * self.tick_s

    def settings(self) -> dict[str, dict[str, Any]]:
        return {
            "zookeeper": {"session_timeout_s": self.session_timeout_s, "tick_s": self.tick_s, "sync_limit": SYNC_LIMIT},
            "timing": {"margin_s": self.margin_s, "heartbeat_s": self.heartbeat_s, "kill_s": self.kill_s, "stop_s": 2.0},
        }


SHORT_TIMING = ChaosTiming(session_timeout_s=3.0, margin_s=1.2, tick_s=0.2, heartbeat_s=0.3, kill_s=0.5)
"""Close to the shortest that `Timing.find_problem` accepts, for many faults in little time."""
CALM_TIMING = ChaosTiming(session_timeout_s=6.0, margin_s=2.5, tick_s=0.3, heartbeat_s=0.4, kill_s=1.0)
"""Longer, for a machine on which other tests run at the same time."""
USUAL_TIMING = ChaosTiming(session_timeout_s=12.0, margin_s=5.0, tick_s=2.0, heartbeat_s=1.0, kill_s=1.0)
"""Timing of a production cluster, for faults that need a process to start within the session timeout."""
