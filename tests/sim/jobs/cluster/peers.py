"""Network between nodes, the exchange of failsafe promises on it, and the files through which runners read them."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import Unavailable
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.attempts import AttemptId
from holdfast.node.failsafe.journal import MakeHeader
from tests.sim.jobs.cluster.machine import SimAttemptDirectory, SimFile, SimMachine
from tests.sim.process import Process
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.cluster.job_node import JobNode

REPLY_TIMEOUT_S = 2.0
Answer = asyncio.Future[dict[JobId, str]]


class Lan:
    """Reachability between machines. A machine always reaches itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{world.seed}/lan")
        self._cut: set[frozenset[str]] = set()
        self.nodes: dict[NodeId, JobNode] = {}
        self.delay_s = 0.005
        self.on_promise: Callable[[JobNode, str], object] = lambda *_: None
        """Function called with the granting node and the requesting machine, for each batch of promises."""

    def hop_s(self) -> float:
        return self._random.uniform(0.0002, self.delay_s)

    def commit_s(self) -> float:
        """Return the time that a commit of the promise journal takes."""
        return self._random.uniform(0.001, 0.1)

    def cut(self, one: str, other: str) -> None:
        if one != other:
            self._world.record("fault", "cut lan", one, other)
            self._cut.add(frozenset((one, other)))

    def heal(self, one: str, other: str) -> None:
        self._world.record("fault", "heal lan", one, other)
        self._cut.discard(frozenset((one, other)))

    def heal_all(self) -> None:
        self._cut.clear()
        self.delay_s = 0.005

    def connected(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self._cut


class SimJournal:
    """Simulated `holdfast.node.failsafe.journal.Journal`. Unsynced data is lost when the power fails."""

    def __init__(self, file: SimFile, lan: Lan, *, fsync: bool) -> None:
        self._file = file
        self._lan = lan
        self._fsync = fsync
        self._has_header = False

    def read(self) -> bytes:
        return self._file.read_bytes()

    async def append(self, record: bytes, make_header: MakeHeader) -> None:
        """Write the record a moment later, so that a crash can happen before. The first write replaces the file."""
        await asyncio.sleep(self._lan.commit_s())
        if self._has_header:
            self._file.write(self._file.read_bytes() + record, fsync=self._fsync)
        else:
            self._file.write(make_header(), fsync=self._fsync)
            self._has_header = True


class SimPromiseTransport:
    """Simulated `holdfast.node.failsafe.exchange.PromiseTransport`, including the receiving side in the node's API."""

    def __init__(self, lan: Lan, world: World, process: Process) -> None:
        self._lan = lan
        self._world = world
        self._process = process

    async def request(self, node: NodeId, address: str, attempts: Mapping[JobId, Attempt], period_s: float) -> dict[JobId, str]:
        answer: Answer = asyncio.get_running_loop().create_future()
        self._send(self._deliver_request, NodeId(address), attempts, period_s, answer)
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise Unavailable(f"{node} does not answer") from None

    def _send(self, callback: Callable[..., object], *args: object) -> None:
        self._world.schedule_at(self._world.now_s + self._lan.hop_s(), callback, *args)

    def _deliver_request(self, id: NodeId, attempts: Mapping[JobId, Attempt], period_s: float, answer: Answer) -> None:
        node = self._lan.nodes.get(id)
        if node is None or node.agent is None or not self._lan.connected(self._process.machine, node.name):
            return
        self._world.loop.deliver(
            self._world.process(node.process), lambda: asyncio.ensure_future(self._grant(node, attempts, period_s, answer))
        )

    async def _grant(self, node: "JobNode", attempts: Mapping[JobId, Attempt], period_s: float, answer: Answer) -> None:
        """Grant or refuse the promises, in the agent's process."""
        refused = await node.promises.grant_all(attempts, period_s)
        for job, reason in refused.items():
            self._world.record("no promise", node.name, job, attempts[job], reason)
        self._lan.on_promise(node, self._process.machine)
        self._send(self._deliver_reply, node, answer, {job: refused.get(job, "") for job in attempts})

    def _deliver_reply(self, node: "JobNode", answer: Answer, answers: dict[JobId, str]) -> None:
        if not self._process.crashed and self._lan.connected(self._process.machine, node.name):
            self._world.loop.deliver(self._process, _resolve, answer, answers)


def _resolve(answer: Answer, answers: dict[JobId, str]) -> None:
    if not answer.done():
        answer.set_result(answers)


class SimRunnerFiles:
    """Simulated `holdfast.node.failsafe.exchange.Runners`."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine

    def read_requests(self) -> dict[AttemptId, int]:
        attempts = self._machine.disk.attempts.items()
        return {
            attempt_id: files.promise_requests for attempt_id, files in attempts if files.promise_requests and not files.closed
        }

    async def publish(self, granted: Mapping[AttemptId, Mapping[NodeId, float]]) -> None:
        for attempt_id, nodes in granted.items():
            self._machine.disk.attempts[attempt_id].granted_promises = dict(nodes)


class SimGrantedPromises:
    """Simulated `holdfast.runner.interfaces.FailsafePeers`."""

    def __init__(self, files: SimAttemptDirectory) -> None:
        self._files = files
        self._until: dict[NodeId, float] = {}

    def request_promises(self) -> None:
        self._files.promise_requests += 1

    def promised_until(self, nodes: Iterable[NodeId]) -> float:
        for node, until in self._files.granted_promises.items():
            self._until[node] = max(until, self._until.get(node, until))
        return self._combine([self._until.get(node, float("-inf")) for node in nodes])

    def _combine(self, until: list[float]) -> float:
        return min(until, default=float("-inf"))
