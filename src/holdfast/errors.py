"""What can go wrong, named by what the caller does next.

The text of every error is one sentence for a person: it says what happened and, where it helps, what to do.
"""


class HoldfastError(Exception):
    """The root of all errors that Holdfast raises on purpose."""


class Unavailable(HoldfastError):
    """Nothing was done, and the same call may succeed later: retry."""


class Conflict(HoldfastError):
    """Nothing was done because the state is not what the caller decided from: look again."""


class Refused(HoldfastError):
    """Nothing was done, and asking again will not help: tell a person."""


class OutcomeUnknown(HoldfastError):
    """The reply was lost. It may have been done or not: look before doing anything else."""


class SessionEnded(HoldfastError):
    """The ZooKeeper session is over, and everything that was tied to it is gone: begin a new one."""


class OutputRefused(Refused):
    """Nothing was written: the output is somebody else's, or not as this job has left it. A person has to choose."""


class Superseded(HoldfastError):
    """Nothing was written: a later attempt of the same job has taken over. End."""
