"""The links between machines and servers, and what can go wrong on them."""

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection

HOP_S_MIN = 0.0002
HOP_S_MAX = 0.005


class Link:
    """Between one machine, with all its processes, and one server."""

    __slots__ = ("replies_cut", "reply_delay_s", "requests_cut")

    def __init__(self) -> None:
        self.requests_cut = False
        self.replies_cut = False
        self.reply_delay_s = 0.0


class Network:
    def __init__(self, rng: random.Random, servers: int, record: Callable[..., None]) -> None:
        self.random = rng
        self._record = record
        self._servers = servers
        self._links: dict[tuple[str, int], Link] = {}
        self._connections: dict[Connection, None] = {}
        self.before_fault: Callable[[], None] = lambda: None
        """What went on undisturbed until now is worked out before the disturbance begins."""
        self.after_fault: Callable[[], None] = lambda: None

    def hop_s(self) -> float:
        """Mostly well under a millisecond, sometimes a few."""
        draw = self.random.random()
        return HOP_S_MIN + (HOP_S_MAX - HOP_S_MIN) * draw * draw

    def link(self, machine: str, server: int) -> Link:
        key = (machine, server)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link()
        return link

    def cut(self, machine: str, server: int | None = None, *, requests: bool = True, replies: bool = True) -> None:
        """Between the machine and one server, or all. What is sent meanwhile is stuck, not yet lost."""
        self._record("fault", "cut link", machine, server, requests, replies)
        self.before_fault()
        for link in self._between(machine, server):
            link.requests_cut = link.requests_cut or requests
            link.replies_cut = link.replies_cut or replies
        self.after_fault()

    def heal(self, machine: str, server: int | None = None) -> None:
        """Undo `cut` and `delay_replies`."""
        self._record("fault", "heal link", machine, server)
        self.before_fault()
        healed = list(self._between(machine, server))
        for link in healed:
            link.requests_cut = link.replies_cut = False
            link.reply_delay_s = 0.0
        for connection in list(self._connections):
            if connection.link in healed:
                connection.link_healed()
        self.after_fault()

    def delay_replies(self, machine: str, delay_s: float, server: int | None = None) -> None:
        self._record("fault", "delay replies", machine, server, delay_s)
        self.before_fault()
        for link in self._between(machine, server):
            link.reply_delay_s = delay_s
        self.after_fault()

    def opened(self, connection: "Connection") -> None:
        self._connections[connection] = None

    def closed(self, connection: "Connection") -> None:
        self._connections.pop(connection, None)

    def connections(self) -> "list[Connection]":
        return list(self._connections)

    def _between(self, machine: str, server: int | None) -> Iterator[Link]:
        for index in range(self._servers) if server is None else (server,):
            yield self.link(machine, index)
