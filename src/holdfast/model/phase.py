"""Where a job stands, and where it may go from there. The only table of transitions: an illegal one raises."""

import enum
from collections.abc import Mapping
from types import MappingProxyType

from holdfast.errors import HoldfastError


class Phase(enum.StrEnum):
    PENDING = "PENDING"
    """Wants to run and does not, for the reason given: it is new, or there is no room."""
    STARTING = "STARTING"
    """A node was told to run an attempt, and none has been seen alive yet."""
    RUNNING = "RUNNING"
    """An attempt holds the lease."""
    BACKOFF = "BACKOFF"
    """The last attempt failed, and the next one waits for its time."""
    STOPPING = "STOPPING"
    """A person wants it stopped or cancelled, and an attempt may still be alive."""
    PARKED = "PARKED"
    """Waits for a person, who is told the exact problem and the choices."""
    QUARANTINED = "QUARANTINED"
    """Cannot even be read or recovered. Nothing of it is deleted."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        return self in _FINAL

    @property
    def occupies_slots(self) -> bool:
        """Whether an attempt may be alive, or is about to be."""
        return self in _OCCUPYING


_FINAL = frozenset({Phase.FINISHED, Phase.FAILED, Phase.CANCELLED})
_OCCUPYING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
_ENDS = frozenset({Phase.PARKED, Phase.QUARANTINED, Phase.FINISHED, Phase.FAILED, Phase.CANCELLED})

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        # From PENDING and BACKOFF a live attempt can be found: that of a leader whose own account of it got lost.
        # A new reason to wait is a change too: somebody may be asking why it does not run.
        Phase.PENDING: _ENDS | {Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.STOPPING},
        Phase.STARTING: _ENDS | {Phase.RUNNING, Phase.BACKOFF, Phase.PENDING, Phase.STOPPING},
        # And from RUNNING another attempt than the one noted.
        Phase.RUNNING: _ENDS | {Phase.RUNNING, Phase.BACKOFF, Phase.PENDING, Phase.STOPPING},
        Phase.BACKOFF: _ENDS | {Phase.STARTING, Phase.RUNNING, Phase.PENDING, Phase.STOPPING},
        Phase.STOPPING: _ENDS | {Phase.PENDING},
        Phase.PARKED: frozenset({Phase.PENDING, Phase.QUARANTINED, Phase.CANCELLED, Phase.STOPPING}),
        Phase.QUARANTINED: frozenset({Phase.PENDING, Phase.CANCELLED}),
        Phase.FINISHED: frozenset(),
        Phase.FAILED: frozenset(),
        Phase.CANCELLED: frozenset(),
    }
)


class IllegalTransition(HoldfastError):
    """A mistake in Holdfast itself: nothing may act on it."""


def check_transition(old: Phase, new: Phase) -> None:
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(f"a job cannot go from {old} to {new}")
