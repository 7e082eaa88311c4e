"""User name that is recorded with submissions, upgrades and savepoints."""

import getpass
import socket

LENGTH_MAX = 100


def current_user() -> str:
    """Return `user@host`. The value is informational: every user who reaches ZooKeeper can write any name."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}".encode(errors="replace").decode()[:LENGTH_MAX]
