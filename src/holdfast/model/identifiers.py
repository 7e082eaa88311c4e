"""Identifiers. Each has its own type, so that they cannot be confused."""

import re
from typing import NewType

NodeId = NewType("NodeId", str)
Epoch = NewType("Epoch", int)
JobId = NewType("JobId", str)
Attempt = NewType("Attempt", int)
"""Number of an execution of a job: 1, 2, 3…; 0 before the first. A number is never reused."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


def is_valid_name(text: str) -> bool:
    """Return True if the text can name a cluster, a node or a job: it is safe in a znode path, a file name and a URL."""
    return _NAME.fullmatch(text) is not None
