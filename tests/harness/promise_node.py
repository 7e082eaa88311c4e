"""Promise service of one node as a process: real HTTP server, journal and exchange, but no ZooKeeper and no runners.

`python -m tests.harness.promise_node DIRECTORY NODE PORT SESSION_TIMEOUT_S` reads the addresses of the other nodes from
`peers.json`, like an agent that starts while ZooKeeper is away. Each directory `attempts/JOB/ATTEMPT` is an open attempt.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from holdfast import log
from holdfast.api import app as http
from holdfast.api import failsafe_routes
from holdfast.clock import SystemClock, boot_id
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.attempts import AttemptId
from holdfast.node.failsafe.exchange import PromiseExchange
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.known_peers import KnownPeers, PeersFile
from holdfast.node.failsafe.peer_http import HttpPromiseTransport
from holdfast.node.failsafe.promises import FailsafePromises
from holdfast.node.failsafe.runner_files import RunnerFiles
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.timing import Timing
from tests.harness.waiting import wait_until

SECRET = "0123456789abcdef"
SESSION_TIMEOUT_S = 10.0
TIMING = Timing(heartbeat_s=1.0, tick_s=1.0, sync_limit=5, kill_s=1.0, margin_s=4.0)


async def serve(directory: Path, node: NodeId, port: int, timeout_s: float, attempts: list[AttemptId]) -> None:
    clock, boot = SystemClock(), boot_id()
    journal = PromiseJournal(directory / "promises.journal")
    promises = FailsafePromises(
        journal,
        clock,
        boot=boot,
        period_s=timeout_s + TIMING.margin_s,
        newest_started=lambda _: Attempt(0),
    )
    peers_file = PeersFile(directory / "peers.json")
    exchange = PromiseExchange(
        node,
        promises=promises,
        runners=RunnerFiles(directory / "attempts", lambda: attempts, boot=boot),
        peers=KnownPeers(Paths("c"), node, clock, saved=peers_file.read(), save=peers_file.write),
        transport=HttpPromiseTransport(node, lambda: SECRET, clock),
        clock=clock,
        timing=TIMING,
        timeout_s=timeout_s,
        log=log.configure_logging(component="promises", node=node),
    )
    server = http.build_server(Starlette(routes=list(failsafe_routes.routes(promises, lambda: SECRET, node))))
    task = asyncio.ensure_future(exchange.run())
    signal.signal(signal.SIGUSR1, lambda *_: _write_statistics(directory, journal))
    await server.serve(sockets=[http.open_listener("127.0.0.1", port)])
    task.cancel()


def find_attempts(directory: Path) -> list[AttemptId]:
    paths = sorted(directory.glob("attempts/*/*"))
    return [AttemptId(JobId(path.parent.name), Attempt(int(path.name)), "nonce") for path in paths]


def _write_statistics(directory: Path, journal: PromiseJournal) -> None:
    times = os.times()
    (directory / "statistics.tmp").write_text(json.dumps({"commits": journal.commit_count, "cpu_s": times.user + times.system}))
    (directory / "statistics.tmp").replace(directory / "statistics.json")


@dataclass
class PromiseNode:
    """Process of a promise service, as the test sees it."""

    directory: Path
    node: NodeId
    port: int
    timeout_s: float = SESSION_TIMEOUT_S
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = (str(self.directory), self.node, str(self.port), str(self.timeout_s))
        command = [sys.executable, "-m", "tests.harness.promise_node", *arguments]
        with (self.directory / "log").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def is_listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def statistics(self) -> tuple[int, float]:
        """Return the number of commits and the CPU time so far."""
        assert self.process is not None
        file = self.directory / "statistics.json"
        file.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        wait_until(file.exists, 10, "the process writes its statistics")
        fields = json.loads(file.read_text())
        return fields["commits"], fields["cpu_s"]


@contextlib.contextmanager
def start_promise_nodes(
    directory: Path,
    ports: list[int],
    *,
    attempts: int,
    nodes_with_attempts: int = 1,
    timeout_s: float = SESSION_TIMEOUT_S,
) -> Iterator[list[PromiseNode]]:
    """Start a node per port. The open attempts are spread over the first `nodes_with_attempts` nodes."""
    nodes = [
        PromiseNode(directory / f"n{number}", NodeId(f"n{number}"), port, timeout_s) for number, port in enumerate(ports, 1)
    ]
    for node in nodes:
        node.directory.mkdir(parents=True)
        others = {other.node: other.address for other in nodes if other is not node}
        (node.directory / "peers.json").write_text(json.dumps({"peers": others}))
    for number in range(attempts):
        (nodes[number % nodes_with_attempts].directory / "attempts" / f"j{number}" / "1").mkdir(parents=True)
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


if __name__ == "__main__":
    node_directory = Path(sys.argv[1])
    serving = serve(node_directory, NodeId(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), find_attempts(node_directory))
    asyncio.run(serving)
