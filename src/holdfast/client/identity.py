"""Who is asking, for people who read it later."""

import getpass
import socket

LENGTH_MAX = 100


def identity() -> str:
    """User and machine. Nothing relies on it: whoever reaches ZooKeeper can call themselves what they like."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}".encode(errors="replace").decode()[:LENGTH_MAX]
