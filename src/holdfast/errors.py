"""Errors, classified by the reaction of the caller.

Every message is a sentence for the user: what happened and, where it helps, what to do.
"""


class HoldfastError(Exception):
    """Base class of all errors that Holdfast raises on purpose."""


class Unavailable(HoldfastError):
    """Temporary failure without any effect. The caller may retry."""


class Conflict(HoldfastError):
    """Nothing was done because the state has changed since the caller read it. The caller reads it again."""


class Refused(HoldfastError):
    """Permanent failure without any effect. A retry does not help; the message goes to the user."""


class OutcomeUnknown(HoldfastError):
    """The reply was lost, so the operation may or may not have been carried out. The caller reads the state first."""


class SessionEnded(HoldfastError):
    """The ZooKeeper session has ended, and its ephemeral znodes are gone. The caller opens a new session."""


class OutputRefused(Refused):
    """Nothing was written: the output belongs to another job, or was changed since this job wrote it. The user decides."""


class Superseded(HoldfastError):
    """Nothing was written: a later attempt of the same job has taken over. The driver ends."""
