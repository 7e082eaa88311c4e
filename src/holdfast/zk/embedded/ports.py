"""The ports of a server on loopback: picked once, remembered, and looked at again before the next start."""

import random
import socket
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from holdfast.errors import Refused

LOOPBACK = "127.0.0.1"
LOWEST = 10_000
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
        """Four free ports, none of them in `avoid`."""
        known = set(avoid)
        picked: list[int] = []
        for _ in range(4):
            picked.append(_pick_one(known))
            known.add(picked[-1])
        return cls(*picked)

    def numbers(self) -> tuple[int, ...]:
        return astuple(self)


def taken(port: int) -> bool:
    """Whether a server could not listen there now."""
    with socket.socket() as probe:
        # As ZooKeeper does: a connection of an earlier server that is only waiting to be forgotten is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def _pick_one(known: set[int]) -> int:
    # Below the ports that the kernel lends to outgoing connections. A server that is down for a moment would find its
    # port lent to someone else; a client that keeps knocking at it can even be connected to itself there, and hold it.
    top = _ephemeral_lowest()
    # Not the shared generator: tests seed that, and two of them at the same time would pick the same ports.
    dice = random.SystemRandom()
    for _ in range(TRIES_MAX):
        port = dice.randrange(LOWEST, top)
        if port not in known and not taken(port):
            return port
    raise Refused(f"there is no free port on {LOOPBACK} between {LOWEST} and {top}")


def _ephemeral_lowest() -> int:
    try:
        lowest = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
    return lowest if lowest > LOWEST + 1000 else 65_536
