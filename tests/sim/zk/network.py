"""Links between machines and ZooKeeper servers, and their faults."""

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection

HOP_S_MIN = 0.0002
HOP_S_MAX = 0.005


class Link:
    """Link between one machine (all its processes) and one server."""

    __slots__ = ("replies_cut", "reply_delay_s", "requests_cut")

    def __init__(self) -> None:
        self.requests_cut = False
        self.replies_cut = False
        self.reply_delay_s = 0.0


class Network:
    def __init__(self, rng: random.Random, servers: int, record: Callable[..., None]) -> None:
        self._draw = rng.random
        self._record = record
        self._servers = servers
        self._links: dict[tuple[str, int], Link] = {}
        self._connections: dict[Connection, None] = {}
        self.before_fault: Callable[[], None] = lambda: None
        """Hook that applies the effects of elapsed pings under the old conditions, before a fault changes the conditions."""
        self.after_fault: Callable[[], None] = lambda: None

    def hop_s(self) -> float:
        """Return a random one-way latency: usually far below a millisecond, sometimes a few."""
        draw = self._draw()
        return HOP_S_MIN + (HOP_S_MAX - HOP_S_MIN) * draw * draw

    def link(self, machine: str, server: int) -> Link:
        key = (machine, server)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link()
        return link

    def cut(self, machine: str, server: int | None = None, *, requests: bool = True, replies: bool = True) -> None:
        """Cut the links between a machine and one server, or all servers. Packets sent meanwhile are blocked, not yet lost."""
        self._record("fault", "cut link", machine, server, requests, replies)
        self.before_fault()
        for link in self._links_between(machine, server):
            link.requests_cut = link.requests_cut or requests
            link.replies_cut = link.replies_cut or replies
        self.after_fault()

    def heal(self, machine: str, server: int | None = None) -> None:
        """Undo `cut` and `delay_replies`."""
        self._record("fault", "heal link", machine, server)
        self.before_fault()
        healed = list(self._links_between(machine, server))
        for link in healed:
            link.requests_cut = link.replies_cut = False
            link.reply_delay_s = 0.0
        for connection in list(self._connections):
            if connection.link in healed:
                connection.on_link_healed()
        self.after_fault()

    def delay_replies(self, machine: str, delay_s: float, server: int | None = None) -> None:
        self._record("fault", "delay replies", machine, server, delay_s)
        self.before_fault()
        for link in self._links_between(machine, server):
            link.reply_delay_s = delay_s
        self.after_fault()

    def add_connection(self, connection: "Connection") -> None:
        self._connections[connection] = None

    def remove_connection(self, connection: "Connection") -> None:
        self._connections.pop(connection, None)

    def connections(self) -> "list[Connection]":
        return list(self._connections)

    def _links_between(self, machine: str, server: int | None) -> Iterator[Link]:
        for index in range(self._servers) if server is None else (server,):
            yield self.link(machine, index)
