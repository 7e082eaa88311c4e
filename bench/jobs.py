"""What many jobs cost the leader: a new one's first look at all of them, and a pass when nothing happens.

Real ZooKeeper servers (3) and real nodes (2). The jobs are records with live leases, all held by this process: for the leader
they look like jobs whose runners are well.
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
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path

from bench.failover import CLUSTER, TICK_S, Replaceable
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Lease, Report, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.embedded import Ensemble, Settings
from holdfast.zk.kazoo_transport import connect_by
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord, RequestRecord
from holdfast.zk.session.client import Client, Committed, Create, Operation, SetData
from holdfast.zk.session.client import State as Session
from holdfast.zk.session.connection_settings import Ensemble as Servers
from tests.harness.waiting import eventually

SIZES = (100, 1000)
ROUNDS = 5
IDLE_S = 10.0
HOLDER = NodeId("holder")
PATHS = Paths(CLUSTER)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ensemble = Ensemble(Path(directory) / "zk", size=3, settings=Settings(tick_ms=int(TICK_S * 1000)))
        ensemble.start()
        try:
            ensemble.wait_ready(60)
            with contextlib.ExitStack() as stack:
                asyncio.run(_measure(stack, ensemble, Path(directory)))
        finally:
            ensemble.stop()


async def _measure(stack: contextlib.ExitStack, ensemble: Ensemble, directory: Path) -> None:
    nodes = [Replaceable(directory / id, ensemble.connect, id) for id in ("n1", "n2")]
    for each in nodes:
        stack.enter_context(each.started())
    await asyncio.to_thread(eventually, lambda: _leading(nodes), 60, "a leader")
    medians = {}
    async with _session(ensemble) as client:
        record = NodeRecord(slots=max(SIZES), address="", version="bench", newest_schema=SCHEMA)
        await client.commit([Create(PATHS.node(HOLDER), encode(record), ephemeral=True)])
        made = 0
        for size in SIZES:
            while made < size:
                some = range(made, min(made + 50, size))
                await asyncio.gather(*(_make(client, number) for number in some))
                made = some.stop
            medians[size] = await asyncio.to_thread(_fail_over, nodes, size)
        few, many = SIZES
        ratio = medians[many] / medians[few]
        print(f"  just started, {many} jobs take {ratio:.1f} times as long as {few} (linear would be {many / few:g})")
        await asyncio.to_thread(_idle, nodes, ensemble)


@contextlib.asynccontextmanager
async def _session(ensemble: Ensemble) -> AsyncIterator[Client]:
    hosts = tuple(("127.0.0.1", server.client_port) for server in ensemble.servers)
    awake = asyncio.Event()
    client = connect_by(Servers(hosts, session_timeout_s=20))(awake.set)
    while client.state is not Session.CONNECTED:
        await awake.wait()
        awake.clear()
    try:
        yield client
    finally:
        await client.close()


async def _make(client: Client, number: int) -> None:
    job, attempt = JobId(f"job-{number}"), Attempt(1)
    spec = Spec(name=f"name-{number}", script="job.py", blob="0" * 64, arguments=("--input", "/data/in" * 20))
    state = State(Phase.PENDING, "submitted", request=f"r-{number}")
    for phase in (Phase.STARTING, Phase.RUNNING):
        state = state.becoming(phase, f"attempt 1 on {HOLDER}", wall=time.time(), epoch=Epoch(1), attempt=attempt, node=HOLDER)
    operations: Sequence[Operation] = [
        Create(PATHS.request(f"r-{number}"), encode(RequestRecord(job, "0" * 64))),
        Create(PATHS.name(spec.name), encode(NameRecord(job))),
        Create(PATHS.job(job)),
        Create(PATHS.job(job, "spec"), encode(spec)),
        Create(PATHS.job(job, "desired"), encode(Wanted(Desired.RUN))),
        Create(PATHS.job(job, "attempt")),
        SetData(PATHS.job(job, "attempt"), b"", 0),
        Create(PATHS.job(job, "report"), encode(Report(attempt, HOLDER, time.time(), nonce="x"))),
        Create(PATHS.job(job, "lease"), encode(Lease(attempt, HOLDER, nonce="x")), ephemeral=True),
        # Last, so that no leader sees a part of it; it is one transaction anyway.
        Create(PATHS.job(job, "state"), encode(state)),
    ]
    assert isinstance(await client.commit(operations), Committed)


def _leading(nodes: list[Replaceable]) -> Replaceable | None:
    return next((each for each in nodes if each.node.leading()), None)


def _fail_over(nodes: list[Replaceable], size: int) -> float:
    """From SIGKILL of the leading agent to the successor's word that it has confirmed every job."""
    warm = [_round(nodes, size, warm=True) for _ in range(ROUNDS)]
    cold = [_round(nodes, size, warm=False) for _ in range(ROUNDS)]
    for what, taken in (("the next one has stood by", warm), ("it has just been started", cold)):
        print(
            f"  {size} jobs, leader SIGKILLed, {what}: "
            f"all confirmed after {statistics.median(taken):.2f} s (worst {max(taken):.2f} s)"
        )
    return statistics.median(cold)


def _round(nodes: list[Replaceable], size: int, *, warm: bool) -> float:
    eventually(lambda: all(each.node.status().get("registered") for each in nodes), 60, "both nodes are there")
    leader = eventually(lambda: _leading(nodes), 60, "a leader")
    other = next(each for each in nodes if each is not leader)
    for each in nodes if warm else [leader]:
        eventually(functools.partial(_knows, each, size), 120, f"{each.node.directory.name} knows {size} jobs")
    before = len(other.node.events("jobs confirmed"))
    agent = leader.node.agent_pid()
    assert agent is not None
    killed_at = time.time()
    os.kill(agent, signal.SIGKILL)
    event = eventually(lambda: other.node.events("jobs confirmed")[before:], 60, "the jobs are confirmed")[0]
    assert (event["jobs"], event["alive"]) == (size, size), event
    return datetime.fromisoformat(event["time"]).timestamp() - killed_at


def _knows(some: Replaceable, size: int) -> bool:
    return (some.node.status().get("work") or {}).get("alive") == size


def _idle(nodes: list[Replaceable], ensemble: Ensemble) -> None:
    leader = eventually(lambda: _leading(nodes), 60, "a leader")
    eventually(lambda: _knows(leader, max(SIZES)), 120, "the leader knows every job")
    time.sleep(3)
    before, zxid = leader.node.status()["work"], _zxid(ensemble)
    passes = []
    until = time.monotonic() + IDLE_S
    while time.monotonic() < until:
        passes.append(leader.node.status()["work"]["pass_s"])
        time.sleep(0.2)
    after, written = leader.node.status()["work"], _zxid(ensemble) - zxid
    beats = round(IDLE_S / 1.0)
    print(
        f"  idle pass over {max(SIZES)} jobs: median {statistics.median(passes) * 1000:.1f} ms, "
        f"worst {max(passes) * 1000:.1f} ms (target: under 50), {after['commands'] - before['commands']} writes by it"
    )
    print(f"  all writes to ZooKeeper in {IDLE_S:g} s: {written}, of which about {beats} are the leader's beat")


def _zxid(ensemble: Ensemble) -> int:
    """Of the last transaction: it grows by one with each, sessions included."""
    newest = 0
    for server in ensemble.servers:
        with socket.create_connection(("127.0.0.1", server.client_port), timeout=2) as connection:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read().decode()
        newest = max(newest, *(int(line.split()[1], 16) for line in answer.splitlines() if line.startswith("Zxid:")))
    return newest
