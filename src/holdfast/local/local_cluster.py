"""Supervisor of a local cluster: starts its processes and restarts them until it is stopped.

All processes are children of the main thread and receive a parent-death signal: when this process ends, even by SIGKILL, the
kernel kills the ZooKeeper servers and sends SIGTERM to the nodes.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.direct_http import open_url
from holdfast.errors import Refused, Unavailable
from holdfast.local.directory_layout import CLUSTER_NAME, DirectoryLayout
from holdfast.local.local_node import SESSION_TIMEOUT_S, LocalNode
from holdfast.local.private_files import create_private_directory, load_or_create_credentials
from holdfast.local.process_identity import ProcessIdentity
from holdfast.model.plural import format_count
from holdfast.node.drain import drain_runners
from holdfast.node.guard.guard_process import CANNOT_RUN_EXIT_CODE
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer
from holdfast.zk.kazoo_transport.access_control import ZnodeAccess
from holdfast.zk.session.connection_settings import ConnectionSettings, DigestCredentials, parse_connect_string

RESTART_S = 1.0
RESTART_S_MAX = 5.0
HEALTHY_S = 5.0
READY_TIMEOUT_S = 90.0
DRAIN_TIMEOUT_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalClusterOptions:
    """Options of `holdfast up`."""

    nodes: int = 1
    zookeepers: int | None = None
    slots: int = 4
    faults: bool = False
    accept_zookeeper: bool = False


class _RestartTimer:
    """Restart delay of one process: one second, and up to five seconds if the process keeps dying."""

    def __init__(self) -> None:
        self._due_at: float | None = None
        self._started_at = 0.0
        self._delay_s = RESTART_S

    def record_start(self, now: float) -> None:
        self._started_at, self._due_at = now, None

    def is_due(self, now: float) -> bool:
        if self._due_at is None:
            self._delay_s = RESTART_S if now - self._started_at > HEALTHY_S else min(self._delay_s * 1.5, RESTART_S_MAX)
            self._due_at = now + self._delay_s
        return now >= self._due_at


class LocalCluster:
    def __init__(self, layout: DirectoryLayout, options: LocalClusterOptions, report: Callable[[str], None]) -> None:
        self._layout = layout
        self._report = report
        self._settings = ServerSettings(faults=options.faults)
        self._ensemble = EmbeddedEnsemble(layout.zookeeper, size=options.zookeepers, settings=self._settings)
        self._nodes = [
            LocalNode(
                f"n{number}",
                layout.node_directory(f"n{number}"),
                storage=layout.storage,
                archives=layout.archives,
                connectors=layout.connectors,
                auth_file=layout.auth_file,
                slots=options.slots,
                tick_ms=self._settings.tick_ms,
                sync_limit=self._settings.sync_limit_ticks,
                accept_zookeeper=options.accept_zookeeper,
            )
            for number in range(1, options.nodes + 1)
        ]
        processes: list[ZooKeeperServer | LocalNode] = [*self._ensemble.servers, *self._nodes]
        self._restarts = {process: _RestartTimer() for process in processes}
        self._ready = False
        self._published: dict[str, Any] | None = None

    def start(self) -> None:
        """Start ZooKeeper, close its znodes for other users, then start the nodes. Raises Refused or Unavailable."""
        try:
            for directory in (self._layout.storage, self._layout.nodes):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"cannot create {self._layout.storage}: {error.strerror}") from error
        credentials = load_or_create_credentials(self._layout)
        for note in self._ensemble.start():
            self._report(note)
        self.write_cluster_file()
        servers, nodes = len(self._ensemble.servers), len(self._nodes)
        self._report(f"starting {format_count(servers, 'ZooKeeper server')} and {format_count(nodes, 'node')}")
        self._ensemble.wait_ready(READY_TIMEOUT_S)
        self._report("ZooKeeper is ready")
        self._close_znodes(credentials)
        for node in self._nodes:
            node.start(self._ensemble.connect_string)
        now = time.monotonic()
        for restart in self._restarts.values():
            restart.record_start(now)
        self.write_cluster_file()

    def _close_znodes(self, credentials: DigestCredentials) -> None:
        """Close the znodes for other users. Runners that an earlier version started have no password, so they stop first."""
        hosts, chroot = parse_connect_string(self._ensemble.connect_string)
        with ZnodeAccess(ConnectionSettings(hosts, chroot, session_timeout_s=SESSION_TIMEOUT_S, digest=credentials)) as access:
            if access.is_closed():
                return
            if access.has_open_cluster():
                self._report("closing the znodes of this cluster for other users of this machine")
                self._drain_runners(sorted(self._layout.nodes.iterdir()))
            access.close_all()

    def wait_ready(self) -> None:
        """Wait until all nodes are registered and one of them leads. Report each step.

        Raises Refused if a node cannot run, and Unavailable on timeout.
        """
        give_up_at = time.monotonic() + READY_TIMEOUT_S
        while True:
            self.write_cluster_file()
            for node in self._nodes:
                if node.exit_code is not None:
                    raise Refused(f"node {node.id} ended: {node.last_problem()}")
            answers = [_fetch_status(node) for node in self._nodes]
            leaders = [answer["id"] for answer in answers if answer.get("leading")]
            if leaders and all(answer.get("registered") for answer in answers):
                self._ready = True
                self.write_cluster_file()
                self._report(f"{leaders[0]} leads")
                return
            if time.monotonic() > give_up_at:
                missing = min(zip(self._nodes, answers, strict=True), key=lambda pair: bool(pair[1].get("registered")))[0]
                raise Unavailable(f"node {missing.id} has not joined after {READY_TIMEOUT_S:g} s: {missing.last_problem()}")
            time.sleep(0.05)

    def restart_dead_processes(self) -> None:
        """Restart dead processes, rotate large logs of nodes, and update `cluster.json`."""
        now = time.monotonic()
        for node in self._nodes:
            node.rotate_log()
        for process, restart in self._restarts.items():
            if process.running or not restart.is_due(now):
                continue
            name = f"ZooKeeper server {process.id}" if isinstance(process, ZooKeeperServer) else f"node {process.id}"
            reason = process.exit_reason() if isinstance(process, ZooKeeperServer) else _exit_reason(process)
            self._report(f"{name} died{': ' if reason else ''}{reason}; restarting it")
            try:
                process.start() if isinstance(process, ZooKeeperServer) else process.start(self._ensemble.connect_string)
            except Refused as error:
                self._report(str(error))
            restart.record_start(now)
        self.write_cluster_file()

    def stop(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._ensemble.stop)
            for node in self._nodes:
                node.terminate()
            # After the nodes have stopped, or they would restart the jobs; before ZooKeeper stops, so that leases are released.
            stack.callback(self._drain_runners, [node.directory for node in self._nodes])
            for node in self._nodes:
                stack.callback(node.stop)
        self._ready = False
        self.write_cluster_file()

    def _drain_runners(self, node_directories: list[Path]) -> None:
        drained = sum(drain_runners(directory, timeout_s=DRAIN_TIMEOUT_S) for directory in node_directories)
        if drained:
            self._report(
                f"stopped {format_count(drained, 'running job')}; 'holdfast up' starts {'it' if drained == 1 else 'them'} again"
            )

    def write_cluster_file(self) -> None:
        identity = ProcessIdentity.read(os.getpid())
        description = {
            "connect": self._ensemble.connect_string,
            "cluster": CLUSTER_NAME,
            "auth_file": self._layout.auth_file.name,
            "ready": self._ready,
            "supervisor": {"pid": os.getpid(), "started": identity.started if identity else 0},
            "nodes": [node.describe() for node in self._nodes],
            "zookeepers": [
                {"id": str(server.id), "pid": server.pid, "client_port": server.client_port, "log": str(server.log)}
                for server in self._ensemble.servers
            ],
        }
        if description != self._published or not self._layout.cluster_file.exists():
            try:
                self._layout.write_description(description)
            except OSError as error:
                if self._published is not None:
                    self._report(f"cannot write {self._layout.cluster_file}: {error.strerror}")
                    self._published = None
                return
            self._published = description


def _exit_reason(node: LocalNode) -> str:
    return node.last_problem() if node.exit_code == CANNOT_RUN_EXIT_CODE else ""


def _fetch_status(node: LocalNode) -> dict[str, Any]:
    """Return the node's answer to `/v1/node`, or an empty dict if it does not answer."""
    api = node.describe()["api"]
    if api is None:
        return {}
    try:
        with open_url(f"{api}/v1/node", timeout_s=1) as answer:
            fields = json.load(answer)
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


@contextlib.contextmanager
def lock_directory(layout: DirectoryLayout) -> Iterator[None]:
    """Hold the lock that allows one supervisor per directory."""
    try:
        create_private_directory(layout)
        layout.lock.touch(mode=0o600)
        lock = layout.lock.open("a+")
    except OSError as error:
        raise Refused(f"cannot use the directory {layout.directory}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"a cluster is already running in {layout.directory}; 'holdfast down --dir {layout.directory}' stops it"
            ) from None
        identity = ProcessIdentity.read(os.getpid())
        try:
            lock.truncate(0)
            lock.write(json.dumps({"pid": os.getpid(), "started": identity.started if identity else 0}))
            lock.flush()
        except OSError as error:
            raise Refused(f"cannot write to {layout.lock}: {error.strerror}") from error
        yield


def read_supervisor(layout: DirectoryLayout) -> ProcessIdentity | None:
    """Return the supervisor that the lock file names, or None."""
    try:
        fields = json.loads(layout.lock.read_text())
        return ProcessIdentity(int(fields["pid"]), int(fields["started"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
