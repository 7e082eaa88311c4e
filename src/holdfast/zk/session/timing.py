"""Durations of a session, and the inequalities that make them safe. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds. `tick_s` and `sync_limit` are the ZooKeeper servers' tickTime and syncLimit."""

    heartbeat_s: float = 1.0
    tick_s: float = 2.0
    sync_limit: int = 5
    kill_s: float = 1.0
    margin_s: float = 5.0

    def find_problem(self, timeout_s: float) -> str | None:
        """Return why these durations are unsafe with a session timeout of `timeout_s`, or None if they are safe.

        The margin covers three delays. A heartbeat: the last confirmation may be that old. A tick: a server reports contact
        with a session late, so the session may expire a tick early. The time to kill a process tree.
        """
        if self.heartbeat_s < self.tick_s / 2:
            return (
                f"heartbeat {self.heartbeat_s:g} s must be at least half a tick ({self.tick_s:g} s), "
                "because servers report contacts no more often"
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
                "the time for which a server cut off from its ensemble still answers"
            )
        if timeout_s - self.margin_s <= 2 * self.heartbeat_s:
            return (
                f"the session timeout of {timeout_s:g} s minus the margin of {self.margin_s:g} s "
                f"must be more than two heartbeats of {self.heartbeat_s:g} s"
            )
        return None


class Confirmation:
    """Deadline until which one session certainly exists, computed from its confirmations.

    A confirmation is a committed write that checked a version. Its time is when it was *sent*, a lower bound for when the
    server processed it. A read is no confirmation: a server that is cut off from its ensemble still answers reads.

    A committed write proves that the session existed, but does not extend it. The session is extended when the server, up to
    a tick later, reports the contact to its leader. So a write counts only together with an earlier contact that was answered
    at least a tick before the write was sent. It then counts from its send time, but not from later than a tick and a
    heartbeat after that contact. After a pause, that contact is the last one before the pause, because the first write
    may be committed just before the session expires.
    """

    CONTACTS_MAX = 64

    def __init__(self, timing: Timing, *, started_at: float) -> None:
        """Start without a deadline. `started_at` is a time before the session was created; the creation counts as a contact."""
        self._timing = timing
        self._contacts = [(started_at, float("-inf"))]
        self._valid_from = float("-inf")
        self._timeout_s = 0.0
        self._deadline = float("-inf")

    def record_contact(self, *, sent_at: float, answered_at: float) -> None:
        """Record an answered call (a read counts): a server had contact with the session between these two times."""
        # Merge contacts that are close together, so that the bounded list reaches back for several ticks.
        merge_s = self._timing.tick_s / 8
        if len(self._contacts) > 1 and answered_at - self._contacts[-2][1] < merge_s:
            self._contacts.pop()
        self._contacts.append((sent_at, answered_at))
        del self._contacts[: -self.CONTACTS_MAX]

    def confirm(self, *, sent_at: float, answered_at: float, timeout_s: float) -> None:
        """Record a committed, version-checked write. `timeout_s` is the granted timeout; a reconnection may change it."""
        # A contact answered a tick before this write was sent had been reported when the write was committed.
        reported = [sent for sent, answered in self._contacts if answered <= sent_at - self._timing.tick_s]
        if timeout_s < self._timeout_s:
            # The shorter timeout also applies to the earlier confirmations.
            self._deadline = min(self._deadline, self._valid_from + timeout_s - self._timing.margin_s)
        if reported:
            valid_from = min(sent_at, max(reported) + self._timing.tick_s + self._timing.heartbeat_s)
            self._valid_from = max(self._valid_from, valid_from)
            self._deadline = max(self._deadline, valid_from + timeout_s - self._timing.margin_s)
        self._timeout_s = timeout_s
        self.record_contact(sent_at=sent_at, answered_at=answered_at)

    def invalidate(self) -> None:
        """Discard all confirmations: the epoch or lease that they confirmed has ended."""
        self._valid_from = self._deadline = float("-inf")

    @property
    def deadline(self) -> float:
        return self._deadline

    def holds(self, now: float) -> bool:
        return now < self._deadline


class SteadyContact:
    """Contact of an agent with ZooKeeper: since when it has had no gap longer than `gap_s_max`.

    After a gap, sessions of nodes and runners may have expired although the processes are alive. So a missing znode says little
    until they have had time to return. A new agent has had no contact yet.
    """

    def __init__(self, gap_s_max: float) -> None:
        self._gap_s_max = gap_s_max
        self._since = float("inf")
        self._last = float("-inf")

    def record(self, at: float) -> None:
        """Record a successful contact. `at` is a time of the boot clock, in seconds."""
        if at - self._last > self._gap_s_max:
            self._since = at
        self._last = at

    def undisturbed_since(self, now: float) -> float:
        """Return the time of the first contact after the last gap, by the boot clock; `now` if the contact is interrupted."""
        return self._since if now - self._last <= self._gap_s_max else now
