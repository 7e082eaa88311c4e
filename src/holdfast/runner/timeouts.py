"""Time limits of an attempt."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttemptTimeouts:
    connect_timeout_s: float = 20.0
    """Time limit for the first connection and for taking the lease. The leader gives up the attempt after this time anyway."""
    stop_timeout_s: float = 60.0
    """Grace period between the stop request and SIGTERM. The duration of a real-time batch is added to it."""
    sigterm_timeout_s: float = 10.0
    """Grace period between SIGTERM and SIGKILL."""
    release_timeout_s: float = 30.0
    """Time limit for releasing the lease. After that the node reports the outcome, which it reads from disk."""


DEFAULT_TIMEOUTS = AttemptTimeouts()
