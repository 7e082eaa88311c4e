"""Phases of a job, and the table of allowed transitions between them."""

import enum
from collections.abc import Mapping
from types import MappingProxyType

from holdfast.errors import HoldfastError


class Phase(enum.StrEnum):
    PENDING = "PENDING"
    """Waits to run: the job is new, or no node has enough free slots. The reason says which."""
    SCHEDULED = "SCHEDULED"
    """Waits for the next run of its schedule. The reason says when it is due."""
    STARTING = "STARTING"
    """A node has the order to run an attempt, whose driver has neither Spark nor a query yet. It may hold the lease already."""
    RUNNING = "RUNNING"
    """An attempt holds the lease, and its driver has Spark or a query, or runs without Spark."""
    BACKOFF = "BACKOFF"
    """The last attempt failed; the next one starts after a delay."""
    STOPPING = "STOPPING"
    """A user stopped or cancelled the job; its attempt may still be alive."""
    PARKED = "PARKED"
    """Stopped until a user resumes the job. The reason states the problem and the choices."""
    QUARANTINED = "QUARANTINED"
    """The job cannot be read or recovered. Nothing is deleted."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        return self in _FINAL

    @property
    def occupies_slots(self) -> bool:
        """True if an attempt may be alive or is about to start."""
        return self in _OCCUPYING


_FINAL = frozenset({Phase.FINISHED, Phase.FAILED, Phase.CANCELLED})
_OCCUPYING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
_ENDS = frozenset({Phase.PARKED, Phase.QUARANTINED, Phase.FINISHED, Phase.FAILED, Phase.CANCELLED})

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        # A PENDING or BACKOFF job can turn out to have a live attempt, if the state that named the attempt was lost.
        # PENDING to PENDING records a new reason for waiting.
        Phase.PENDING: _ENDS | {Phase.PENDING, Phase.SCHEDULED, Phase.STARTING, Phase.RUNNING, Phase.STOPPING},
        # SCHEDULED to SCHEDULED records another time of the next run.
        Phase.SCHEDULED: frozenset(
            {Phase.SCHEDULED, Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.STOPPING}
            | {Phase.PARKED, Phase.QUARANTINED, Phase.CANCELLED}
        ),
        # STARTING, RUNNING and STOPPING to themselves also record that the leader waits for a certificate of death.
        Phase.STARTING: _ENDS | {Phase.STARTING, Phase.RUNNING, Phase.BACKOFF, Phase.PENDING, Phase.SCHEDULED, Phase.STOPPING},
        # RUNNING to RUNNING records a different attempt, or a new note of the same attempt.
        Phase.RUNNING: _ENDS | {Phase.RUNNING, Phase.BACKOFF, Phase.PENDING, Phase.SCHEDULED, Phase.STOPPING},
        Phase.BACKOFF: _ENDS | {Phase.STARTING, Phase.RUNNING, Phase.PENDING, Phase.SCHEDULED, Phase.STOPPING},
        # STOPPING to BACKOFF: the user resumed the job before its attempt had ended, and the attempt then failed or was lost.
        Phase.STOPPING: _ENDS | {Phase.STOPPING, Phase.BACKOFF, Phase.PENDING, Phase.SCHEDULED},
        Phase.PARKED: frozenset({Phase.PENDING, Phase.QUARANTINED, Phase.CANCELLED, Phase.STOPPING}),
        Phase.QUARANTINED: frozenset({Phase.PENDING, Phase.CANCELLED}),
        Phase.FINISHED: frozenset(),
        Phase.FAILED: frozenset(),
        Phase.CANCELLED: frozenset(),
    }
)


class IllegalTransition(HoldfastError):
    """Programming error: a transition that the table does not allow."""


def check_transition(old: Phase, new: Phase) -> None:
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(f"a job cannot change from {old} to {new}")
