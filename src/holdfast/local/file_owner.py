"""Owners of files and processes, for messages."""

import pwd
from pathlib import Path


def file_owner(path: Path) -> str:
    """Return the name of the user who owns a file or a process directory, or the number if the user has no name."""
    try:
        uid = path.stat().st_uid
    except OSError:
        return "unknown"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
