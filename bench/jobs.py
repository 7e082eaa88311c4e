"""Cost of many jobs for the leader: the first pass of a new leader, and a pass while nothing happens.

Three real ZooKeeper servers and two real nodes. The jobs are records whose leases this process holds: to the leader they look
like jobs with healthy runners.
"""

import asyncio
import contextlib
import functools
import os
import signal
import socket
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bench.failover import TICK_S, RestartableNode
from bench.stub_jobs import create_jobs, live_job, open_session, register_holder
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from tests.harness.waiting import wait_until

SIZES = (100, 1000)
ROUNDS = 5
IDLE_S = 10.0


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ensemble = EmbeddedEnsemble(Path(directory) / "zk", size=3, settings=ServerSettings(tick_ms=int(TICK_S * 1000)))
        ensemble.start()
        try:
            ensemble.wait_ready(60)
            with contextlib.ExitStack() as stack:
                asyncio.run(_measure(stack, ensemble, Path(directory)))
        finally:
            ensemble.stop()


async def _measure(stack: contextlib.ExitStack, ensemble: EmbeddedEnsemble, directory: Path) -> None:
    nodes = [RestartableNode(directory / id, ensemble.connect_string, id) for id in ("n1", "n2")]
    for each in nodes:
        stack.enter_context(each.running())
    await asyncio.to_thread(wait_until, lambda: _leading(nodes), 60, "a leader")
    medians = {}
    async with open_session(ensemble) as client:
        await register_holder(client, max(SIZES))
        created = 0
        for size in SIZES:
            await create_jobs(client, live_job, range(created, size))
            created = size
            medians[size] = await asyncio.to_thread(_fail_over, nodes, size)
        few, many = SIZES
        ratio = medians[many] / medians[few]
        print(f"  without standby, {many} jobs take {ratio:.1f} times as long as {few} (linear would be {many / few:g})")
        await asyncio.to_thread(_measure_idle, nodes, ensemble)


def _leading(nodes: list[RestartableNode]) -> RestartableNode | None:
    return next((each for each in nodes if each.node.is_leading()), None)


def _fail_over(nodes: list[RestartableNode], size: int) -> float:
    """Return the median time in seconds from SIGKILL of the leading agent until its successor has confirmed every job."""
    warm = [_measure_failover(nodes, size, warm=True) for _ in range(ROUNDS)]
    cold = [_measure_failover(nodes, size, warm=False) for _ in range(ROUNDS)]
    for what, taken in (("successor on standby", warm), ("successor just started", cold)):
        print(
            f"  {size} jobs, leader SIGKILLed, {what}: "
            f"all confirmed after {statistics.median(taken):.2f} s (worst {max(taken):.2f} s)"
        )
    return statistics.median(cold)


def _measure_failover(nodes: list[RestartableNode], size: int, *, warm: bool) -> float:
    wait_until(lambda: all(each.node.status().get("registered") for each in nodes), 60, "both nodes are registered")
    leader = wait_until(lambda: _leading(nodes), 60, "a leader")
    other = next(each for each in nodes if each is not leader)
    for each in nodes if warm else [leader]:
        wait_until(functools.partial(_has_read, each, size), 120, f"{each.node.directory.name} has read {size} jobs")
    before = len(other.node.events("jobs confirmed"))
    agent = leader.node.agent_pid()
    assert agent is not None
    killed_at = time.time()
    os.kill(agent, signal.SIGKILL)
    event = wait_until(lambda: other.node.events("jobs confirmed")[before:], 60, "the jobs are confirmed")[0]
    assert (event["jobs"], event["alive"]) == (size, size), event
    return datetime.fromisoformat(event["time"]).timestamp() - killed_at


def _has_read(node: RestartableNode, size: int) -> bool:
    return (node.node.status().get("work") or {}).get("alive") == size


def _measure_idle(nodes: list[RestartableNode], ensemble: EmbeddedEnsemble) -> None:
    leader = wait_until(lambda: _leading(nodes), 60, "a leader")
    wait_until(lambda: _has_read(leader, max(SIZES)), 120, "the leader has read every job")
    time.sleep(3)
    before, zxid = leader.node.status()["work"], _zxid(ensemble)
    passes = []
    end = time.monotonic() + IDLE_S
    while time.monotonic() < end:
        passes.append(leader.node.status()["work"]["pass_s"])
        time.sleep(0.2)
    after, written = leader.node.status()["work"], _zxid(ensemble) - zxid
    heartbeats = round(IDLE_S / 1.0)
    print(
        f"  idle pass over {max(SIZES)} jobs: median {statistics.median(passes) * 1000:.1f} ms, "
        f"worst {max(passes) * 1000:.1f} ms (target: under 50), {after['commands'] - before['commands']} writes by it"
    )
    print(f"  all writes to ZooKeeper in {IDLE_S:g} s: {written}, of which about {heartbeats} are the leader's heartbeat")


def _zxid(ensemble: EmbeddedEnsemble) -> int:
    """Return the zxid of the last transaction. Each transaction, also of a session, increments it."""
    newest = 0
    for server in ensemble.servers:
        with socket.create_connection(("127.0.0.1", server.client_port), timeout=2) as connection:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read().decode()
        newest = max(newest, *(int(line.split()[1], 16) for line in answer.splitlines() if line.startswith("Zxid:")))
    return newest
