"""The durations of a session and the relations that make them safe. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds. `tick_s` and `sync_limit` are what the ZooKeeper servers are configured with."""

    heartbeat_s: float = 1.0
    tick_s: float = 2.0
    sync_limit: int = 5
    kill_s: float = 1.0
    margin_s: float = 5.0

    def objection(self, timeout_s: float) -> str | None:
        """Why these durations are not safe with a session timeout of `timeout_s`; None if they are.

        The margin covers a heartbeat (the confirmation may be that old), a tick (a server reports touches late, and a session
        may end that much before the timeout after its last write), and the time to kill a process tree.
        """
        needed_s = self.heartbeat_s + self.tick_s + self.kill_s
        if self.margin_s <= needed_s:
            return (
                f"margin {self.margin_s:g} s must be more than heartbeat + tick + kill "
                f"({self.heartbeat_s:g} + {self.tick_s:g} + {self.kill_s:g} = {needed_s:g} s)"
            )
        if timeout_s <= self.sync_limit * self.tick_s:
            return (
                f"the session timeout of {timeout_s:g} s must be more than syncLimit × tick "
                f"({self.sync_limit} × {self.tick_s:g} = {self.sync_limit * self.tick_s:g} s), "
                "the time that a server cut off from its ensemble still answers"
            )
        if timeout_s - self.margin_s <= 2 * self.heartbeat_s:
            return (
                f"the session timeout of {timeout_s:g} s less the margin of {self.margin_s:g} s "
                f"must leave more than two heartbeats of {self.heartbeat_s:g} s"
            )
        return None


class Confirmation:
    """How long the last confirmation holds.

    A confirmation is a committed write that checked a version, and its time is when it was *sent*: what the server knew
    cannot be newer than that. A read is none, because a server that is cut off answers reads.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._deadline = float("-inf")

    def confirm(self, *, sent_at: float, timeout_s: float) -> None:
        self._deadline = max(self._deadline, sent_at + timeout_s - self._timing.margin_s)

    def holds(self, now: float) -> bool:
        return now < self._deadline

    @property
    def deadline(self) -> float:
        return self._deadline
