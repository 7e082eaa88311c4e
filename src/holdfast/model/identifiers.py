"""Identifiers. Each is a type of its own, so that one is not taken for another."""

import re
from typing import NewType

NodeId = NewType("NodeId", str)
Epoch = NewType("Epoch", int)
JobId = NewType("JobId", str)
Attempt = NewType("Attempt", int)
"""One execution of a job: 1, 2, 3…; 0 before the first. A number is never used twice."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


def is_name(text: str) -> bool:
    """Whether a person may call a cluster or a node this. Safe in a znode path, a file name and a URL."""
    return _NAME.fullmatch(text) is not None
