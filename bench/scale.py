"""Many live and ended jobs on a machine without a free core: takeover, lost connections, and the guards' view of the agents.

Three real ZooKeeper servers and two real nodes with their guards. One busy loop per core competes with all of them. The jobs
are records whose leases this process holds. Both sizes are measured in one run: `python -m bench scale`.
"""

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.agent_meters import PROBE_S, SilenceProbe, Step, WorkMeter, leader_work
from bench.failover import TICK_S, RestartableNode, resident_mb
from bench.stub_jobs import PATHS, create_cluster, create_jobs, ended_job, live_job, open_session, register_holder, waiting_job
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.model.identifiers import JobId
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer
from holdfast.zk.session.client import Client, ConnectionState
from tests.harness.cluster.machines import connected_ports
from tests.harness.waiting import wait_until, wait_until_async

SIZES = ((500, 1_400), (5_000, 14_000))
"""Numbers of live and of ended jobs."""
KEEP_RECORDS = {"cluster": {"keep_ended_max": 1_000_000}}
SERVERS = ServerSettings(tick_ms=int(TICK_S * 1000), heap_mb=512)
WAIT_S = 600.0


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """Measurements at one size."""

    steps: dict[str, Step]
    silence_s: float
    """Longest time in which the event loop of an agent answered no request."""
    kills: int
    """Agents that a guard has killed."""
    memory_mb: float


def main() -> None:
    few, many = (_measure_size(live, ended) for live, ended in SIZES)
    print(f"  CPU time of the larger size / CPU time of the smaller (linear: {sum(SIZES[1]) / sum(SIZES[0]):g}):")
    for name, step in many.steps.items():
        if step.jobs_read:
            print(f"    {name}: {step.cpu_s / max(few.steps[name].cpu_s, 0.01):.1f}")
    print("  targets: ratios linear or less, no agent killed by a guard, no silence of 10 s or more")


def _measure_size(live: int, ended: int) -> ScaleResult:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        ensemble = EmbeddedEnsemble(Path(directory) / "zk", size=3, settings=SERVERS)
        stack.callback(ensemble.stop)
        ensemble.start()
        ensemble.wait_ready(60)
        result = asyncio.run(_measure(stack, ensemble, Path(directory), live, ended))
    _print(result, live, ended)
    return result


async def _measure(
    stack: contextlib.ExitStack, ensemble: EmbeddedEnsemble, directory: Path, live: int, ended: int
) -> ScaleResult:
    async with open_session(ensemble) as client:
        await create_cluster(client)
        await register_holder(client, live)
        await create_jobs(client, live_job, range(live))
        await create_jobs(client, ended_job, range(ended))
        nodes = [RestartableNode(directory / id, ensemble.connect_string, id, KEEP_RECORDS) for id in ("n1", "n2")]
        for each in nodes:
            stack.enter_context(each.running())
        scene = Scene(ensemble, nodes, client, live)
        await scene.wait_until_read()
        stack.enter_context(_busy_loops(os.cpu_count() or 1))
        probes = [stack.enter_context(SilenceProbe(node)) for node in nodes]
        steps = {
            "leader SIGKILLed, successor on standby": await scene.fail_over(warm=True),
            "leader SIGKILLed, successor just started": await scene.fail_over(warm=False),
            "leader's ZooKeeper server restarted": await scene.restart_servers([scene.server_of_leader()]),
            "all ZooKeeper servers restarted": await scene.restart_servers(list(ensemble.servers)),
        }
        return ScaleResult(
            steps,
            silence_s=max(probe.longest_s for probe in probes),
            kills=sum(len(each.node.events("agent killed")) for each in nodes),
            memory_mb=max(resident_mb(each.agent_pid()) for each in nodes),
        )


class Scene:
    def __init__(self, ensemble: EmbeddedEnsemble, nodes: list[RestartableNode], client: Client, live: int) -> None:
        self._ensemble = ensemble
        self._nodes = nodes
        self._client = client
        self._live = live
        self._probes = 0

    async def wait_until_read(self) -> None:
        """Wait until one node leads and both have read all jobs."""
        await self._wait(lambda: self._find_leader() is not None, "a leader")
        for node in self._nodes:
            await self._wait(functools.partial(self._has_read, node), "both nodes have read the jobs")

    def _has_read(self, node: RestartableNode) -> bool:
        return leader_work(node).get("alive") == self._live

    async def fail_over(self, *, warm: bool) -> Step:
        """Kill the leading agent. Return the time until its successor has confirmed all live jobs.

        Without `warm`, the successor is killed first, so that it has read nothing.
        """
        await self.wait_until_read()
        leader = self._leader()
        other = next(each for each in self._nodes if each is not leader)
        if not warm:
            os.kill(other.agent_pid(), signal.SIGKILL)
            await self._wait(lambda: not other.node.status(), "the standby agent is gone")
            await self._wait(lambda: other.node.status().get("registered"), "the standby agent is registered again")
        before, meter = len(other.node.events("jobs confirmed")), WorkMeter(other)
        killed_at = time.time()
        os.kill(leader.agent_pid(), signal.SIGKILL)
        await self._wait(lambda: other.node.events("jobs confirmed")[before:], "the jobs are confirmed")
        event = other.node.events("jobs confirmed")[before]
        assert event["alive"] == self._live, event
        step = meter.finish(datetime.fromisoformat(event["time"]).timestamp() - killed_at)
        await self.wait_until_read()
        return step

    def server_of_leader(self) -> ZooKeeperServer:
        ports = connected_ports(self._leader().agent_pid())
        return next(server for server in self._ensemble.servers if server.client_port in ports)

    async def restart_servers(self, servers: list[ZooKeeperServer]) -> Step:
        """Kill and start these servers. Measure until the next decision of a leader."""
        await self._measure_decision()
        meter = WorkMeter(self._leader())
        for server in servers:
            server.kill()
        for server in servers:
            server.start()
        return meter.finish(await self._measure_decision())

    async def _measure_decision(self) -> float:
        """Cancel a new job that waits for a node. Return the time until the leader has cancelled it."""
        began = time.monotonic()
        number, self._probes = self._probes, self._probes + 1
        await self._retry(lambda: self._submit_cancelled(number))
        path = PATHS.job(JobId(f"waiting-{number}"), "state")
        while b'"CANCELLED"' not in (await self._retry(lambda: self._client.get(path))).data:
            assert time.monotonic() < began + WAIT_S, "the leader decides nothing"
            await asyncio.sleep(PROBE_S)
        return time.monotonic() - began

    async def _submit_cancelled(self, number: int) -> None:
        """Create the job. A repetition after a lost reply changes nothing."""
        await self._client.commit(waiting_job(number))

    async def _retry(self, call: Callable[[], Any]) -> Any:
        while True:
            with contextlib.suppress(Unavailable, OutcomeUnknown):
                return await call()
            await wait_until_async(lambda: self._client.state is ConnectionState.CONNECTED, WAIT_S, "a connection")

    async def _wait(self, condition: Callable[[], object], what: str) -> None:
        await asyncio.to_thread(wait_until, condition, WAIT_S, what, every_s=PROBE_S)

    def _find_leader(self) -> RestartableNode | None:
        return next((each for each in self._nodes if each.node.is_leading()), None)

    def _leader(self) -> RestartableNode:
        return wait_until(self._find_leader, WAIT_S, "a leader", every_s=PROBE_S)


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def _print(result: ScaleResult, live: int, ended: int) -> None:
    print(f"  {live:,} live and {ended:,} ended jobs, a busy loop on each core:")
    for name, step in result.steps.items():
        print(f"    {name}: all confirmed, or next decision, after {step}")
    print(f"    longest silence of an agent's event loop: {result.silence_s:.1f} s; agents killed by a guard: {result.kills}")
    print(f"    resident memory of an agent: up to {result.memory_mb:.0f} MB", flush=True)
