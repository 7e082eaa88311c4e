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
        if self.heartbeat_s < self.tick_s / 2:
            return (
                f"heartbeat {self.heartbeat_s:g} s must be at least half a tick ({self.tick_s:g} s): servers report no sooner"
            )
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
    """How long the last confirmation of one session holds.

    A confirmation is a committed write that checked a version, and its time is when it was *sent*: what the server knew cannot
    be newer than that. A read is none, because a server that is cut off answers reads.

    A committed write does not extend its session. It only proves that the session had not ended yet; what extends it is that
    the servers report, a little later, to have heard of it. So a write says how long the session will last only if something
    was heard of it a tick *before*, and the margin assumes that this was not more than a heartbeat earlier. After a pause
    there is nothing of the kind: the first write may be committed a moment before the session expires, and counts no further
    than what was heard before the pause.
    """

    HEARD_MAX = 64

    def __init__(self, timing: Timing, *, began_at: float) -> None:
        """`began_at`: a time before the session existed. Its creation gives it its full time, at the source."""
        self._timing = timing
        self._heard = [(began_at, float("-inf"))]
        self._counts_from = float("-inf")
        self._timeout_s = 0.0
        self._deadline = float("-inf")

    def heard(self, *, sent_at: float, answered_at: float) -> None:
        """A call, even a read, was answered: some server has heard of the session between these two moments."""
        # Answers that come close together say the same. Kept apart, a few of them reach back for several ticks.
        close_s = self._timing.tick_s / 8
        if len(self._heard) > 1 and answered_at - self._heard[-2][1] < close_s:
            self._heard.pop()
        self._heard.append((sent_at, answered_at))
        del self._heard[: -self.HEARD_MAX]

    def confirm(self, *, sent_at: float, answered_at: float, timeout_s: float) -> None:
        """A version-checked write was committed. `timeout_s` is what the server grants now; a reconnection may change it."""
        # Answered a tick before this was sent: then it was reported before this was committed.
        reported = [sent for sent, answered in self._heard if answered <= sent_at - self._timing.tick_s]
        if timeout_s < self._timeout_s:
            # What was granted before is taken back.
            self._deadline = min(self._deadline, self._counts_from + timeout_s - self._timing.margin_s)
        if reported:
            counts_from = min(sent_at, max(reported) + self._timing.tick_s + self._timing.heartbeat_s)
            self._counts_from = max(self._counts_from, counts_from)
            self._deadline = max(self._deadline, counts_from + timeout_s - self._timing.margin_s)
        self._timeout_s = timeout_s
        self.heard(sent_at=sent_at, answered_at=answered_at)

    def lapse(self) -> None:
        """What was confirmed was about something that is over."""
        self._counts_from = self._deadline = float("-inf")

    @property
    def deadline(self) -> float:
        return self._deadline

    def holds(self, now: float) -> bool:
        return now < self._deadline
