"""Loopback ports of a server. They are chosen once, stored, and checked again before each start."""

import random
import socket
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from holdfast.errors import Refused

LOOPBACK = "127.0.0.1"
PORT_MIN = 10_000
TRIES_MAX = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Ports:
    client: int
    secure: int
    quorum: int
    election: int

    @classmethod
    def pick(cls, avoid: Iterable[int] = ()) -> "Ports":
        """Choose four free ports that are not in `avoid`. Raises Refused if there are none."""
        excluded = set(avoid)
        picked: list[int] = []
        for _ in range(4):
            picked.append(_pick_one(excluded))
            excluded.add(picked[-1])
        return cls(*picked)

    def numbers(self) -> tuple[int, ...]:
        return astuple(self)


def is_port_taken(port: int) -> bool:
    """Return True if a server cannot listen on this port now."""
    with socket.socket() as probe:
        # Same option as ZooKeeper: connections of an earlier server in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def _pick_one(excluded: set[int]) -> int:
    # Stay below the ephemeral ports, which the kernel assigns to outgoing connections. While a server is down, the kernel
    # could assign its port to another process, or connect a client that retries to itself.
    limit = _ephemeral_port_min()
    # Not the global generator: tests seed it, and two concurrent tests would choose the same ports.
    generator = random.SystemRandom()
    for _ in range(TRIES_MAX):
        port = generator.randrange(PORT_MIN, limit)
        if port not in excluded and not is_port_taken(port):
            return port
    raise Refused(f"there is no free port on {LOOPBACK} between {PORT_MIN} and {limit}")


def _ephemeral_port_min() -> int:
    try:
        lowest = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
    return lowest if lowest > PORT_MIN + 1000 else 65_536
