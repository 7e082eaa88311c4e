"""Starts a local cluster and keeps it alive until it is told to stop.

Everything is started from the main thread and tied to it: when this process ends, even by SIGKILL, the kernel ends the
ZooKeeper servers and asks the nodes to stop.
"""

import contextlib
import fcntl
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused, Unavailable
from holdfast.local.directory_layout import CLUSTER, Layout
from holdfast.local.local_node import LocalNode
from holdfast.local.process_identity import ProcessName
from holdfast.node.drain import evacuate
from holdfast.node.guard import FINAL_EXIT
from holdfast.zk.embedded import Ensemble, Server, Settings

RESTART_S = 1.0
RESTART_S_MAX = 5.0
HEALTHY_S = 5.0
READY_S = 90.0
EVACUATE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What `holdfast up` was asked for."""

    nodes: int = 1
    zookeepers: int | None = None
    slots: int = 4
    faults: bool = False
    accept_zookeeper: bool = False


class _Restart:
    """When something that died is due again: about a second later, and longer if it keeps dying."""

    def __init__(self) -> None:
        self._due_at: float | None = None
        self._born_at = 0.0
        self._delay_s = RESTART_S

    def born(self, now: float) -> None:
        self._born_at, self._due_at = now, None

    def due(self, now: float) -> bool:
        if self._due_at is None:
            self._delay_s = RESTART_S if now - self._born_at > HEALTHY_S else min(self._delay_s * 1.5, RESTART_S_MAX)
            self._due_at = now + self._delay_s
        return now >= self._due_at


class LocalCluster:
    def __init__(self, layout: Layout, wish: Wish, say: Callable[[str], None]) -> None:
        self._layout = layout
        self._say = say
        self._settings = Settings(faults=wish.faults)
        self._ensemble = Ensemble(layout.zookeeper, size=wish.zookeepers, settings=self._settings)
        self._nodes = [
            LocalNode(
                f"n{number}",
                layout.node(f"n{number}"),
                storage=layout.storage,
                archives=layout.archives,
                connectors=layout.connectors,
                slots=wish.slots,
                tick_ms=self._settings.tick_ms,
                sync_limit=self._settings.sync_limit_ticks,
                accept_zookeeper=wish.accept_zookeeper,
            )
            for number in range(1, wish.nodes + 1)
        ]
        things: list[Server | LocalNode] = [*self._ensemble.servers, *self._nodes]
        self._restarts = {thing: _Restart() for thing in things}
        self._ready = False
        self._described: dict[str, Any] | None = None

    def start(self) -> None:
        now = time.monotonic()
        try:
            self._layout.storage.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"cannot make {self._layout.storage}: {error.strerror}") from error
        for note in self._ensemble.start():
            self._say(note)
        for node in self._nodes:
            node.start(self._ensemble.connect)
        for restart in self._restarts.values():
            restart.born(now)
        self.publish()

    def wait_ready(self) -> None:
        """Until ZooKeeper serves and one node leads. Says what it waits for; raises a sentence if it cannot come."""
        give_up_at = time.monotonic() + READY_S
        self._say(f"starting {len(self._ensemble.servers)} ZooKeeper server(s) and {len(self._nodes)} node(s)")
        self._ensemble.wait_ready(READY_S)
        self._say("ZooKeeper is ready")
        while True:
            self.publish()
            for node in self._nodes:
                if node.exit_code is not None:
                    raise Refused(f"node {node.id} ended: {node.last_problem()}")
            answers = [_ask(node) for node in self._nodes]
            leaders = [answer["id"] for answer in answers if answer.get("leading")]
            if leaders and all(answer.get("registered") for answer in answers):
                self._ready = True
                self.publish()
                self._say(f"{leaders[0]} leads")
                return
            if time.monotonic() > give_up_at:
                late = min(zip(self._nodes, answers, strict=True), key=lambda pair: bool(pair[1].get("registered")))[0]
                raise Unavailable(f"node {late.id} has not joined after {READY_S:g} s: {late.last_problem()}")
            time.sleep(0.05)

    def tend(self) -> None:
        """Start again what died, and keep `cluster.json` current."""
        now = time.monotonic()
        for thing, restart in self._restarts.items():
            if thing.running or not restart.due(now):
                continue
            what = f"ZooKeeper server {thing.id}" if isinstance(thing, Server) else f"node {thing.id}"
            why = thing.exit_hint() if isinstance(thing, Server) else _why(thing)
            self._say(f"{what} has died{': ' if why else ''}{why}; starting it again")
            try:
                thing.start() if isinstance(thing, Server) else thing.start(self._ensemble.connect)
            except Refused as error:
                self._say(str(error))
            restart.born(now)
        self.publish()

    def stop(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._ensemble.stop)
            for node in self._nodes:
                node.terminate()
            # After the nodes, or they would start again what ends; before ZooKeeper, which has to be told.
            stack.callback(self._evacuate)
            for node in self._nodes:
                stack.callback(node.stop)
        self._ready = False
        self.publish()

    def _evacuate(self) -> None:
        ended = sum(evacuate(node.directory, within_s=EVACUATE_S) for node in self._nodes)
        if ended:
            self._say(f"{ended} running {'job' if ended == 1 else 'jobs'} ended; 'holdfast up' starts them again")

    def publish(self) -> None:
        own = ProcessName.of(os.getpid())
        described = {
            "connect": self._ensemble.connect,
            "cluster": CLUSTER,
            "ready": self._ready,
            "supervisor": {"pid": os.getpid(), "started": own.started if own else 0},
            "nodes": [node.described() for node in self._nodes],
            "zookeepers": [
                {"id": str(server.id), "pid": server.pid, "client_port": server.client_port, "log": str(server.log)}
                for server in self._ensemble.servers
            ],
        }
        if described != self._described or not self._layout.cluster_file.exists():
            try:
                self._layout.publish(described)
            except OSError as error:
                if self._described is not None:
                    self._say(f"cannot write {self._layout.cluster_file}: {error.strerror}")
                    self._described = None
                return
            self._described = described


def _why(node: LocalNode) -> str:
    return node.last_problem() if node.exit_code == FINAL_EXIT else ""


def _ask(node: LocalNode) -> dict[str, Any]:
    """What the node says of itself; nothing if it does not answer."""
    api = node.described()["api"]
    if api is None:
        return {}
    try:
        with urllib.request.urlopen(f"{api}/v1/node", timeout=1) as answer:
            fields = json.load(answer)
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


@contextlib.contextmanager
def owned(layout: Layout) -> Iterator[None]:
    """One supervisor per directory."""
    try:
        layout.directory.mkdir(parents=True, exist_ok=True)
        lock = layout.lock.open("a+")
    except OSError as error:
        raise Refused(f"cannot use the directory {layout.directory}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"a cluster is already running in {layout.directory}; 'holdfast down --dir {layout.directory}' ends it"
            ) from None
        own = ProcessName.of(os.getpid())
        lock.truncate(0)
        lock.write(json.dumps({"pid": os.getpid(), "started": own.started if own else 0}))
        lock.flush()
        yield


def supervisor_of(layout: Layout) -> ProcessName | None:
    """The process that holds the directory, by its own account; None if it left none."""
    try:
        fields = json.loads(layout.lock.read_text())
        return ProcessName(int(fields["pid"]), int(fields["started"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
