"""Network between nodes, and the requests for failsafe promises on it."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.identifiers import NodeId
from holdfast.runner.lease import AttemptAssignment
from tests.sim.jobs.cluster.machine import SimProcess
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.cluster.job_node import JobNode

REPLY_TIMEOUT_S = 2.0


class Lan:
    """Reachability between machines. A machine always reaches itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{world.seed}/lan")
        self._cut: set[frozenset[str]] = set()
        self.nodes: dict[NodeId, JobNode] = {}
        self.delay_s = 0.005
        self.on_promise: Callable[[JobNode], object] = lambda _: None

    def hop_s(self) -> float:
        return self._random.uniform(0.0002, self.delay_s)

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


class SimPeers:
    """Simulated `holdfast.runner.interfaces.FailsafePeers`, including the receiving side in the node's API."""

    def __init__(self, lan: Lan, world: World, runner: SimProcess) -> None:
        self._lan = lan
        self._world = world
        self._runner = runner

    async def request_promises(self, nodes: Mapping[NodeId, str], assignment: AttemptAssignment, period_s: float) -> bool:
        answers = await asyncio.gather(
            *(self._request_promise(NodeId(address), assignment, period_s) for address in nodes.values())
        )
        return all(answers)

    async def _request_promise(self, node: NodeId, assignment: AttemptAssignment, period_s: float) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._send(self._deliver_request, node, assignment, period_s, answer)
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                return await answer
        except TimeoutError:
            return False

    def _send(self, callback: Callable[..., object], *args: object) -> None:
        self._world.schedule_at(self._world.now_s + self._lan.hop_s(), callback, *args)

    def _deliver_request(
        self, id: NodeId, assignment: AttemptAssignment, period_s: float, answer: "asyncio.Future[bool]"
    ) -> None:
        node = self._lan.nodes.get(id)
        if node is None or node.agent is None or not self._lan.connected(self._runner.machine.name, node.name):
            return
        self._world.loop.deliver(self._world.process(node.process), self._grant, node, assignment, period_s, answer)

    def _grant(self, node: "JobNode", assignment: AttemptAssignment, period_s: float, answer: "asyncio.Future[bool]") -> None:
        """Grant or refuse the promise, in the agent's process."""
        try:
            node.promises.grant(assignment.job, assignment.attempt, period_s)
        except HoldfastError as error:
            self._world.record("no promise", node.name, assignment.job, assignment.attempt, str(error))
            promised = False
        else:
            self._world.record("promise", node.name, assignment.job, assignment.attempt)
            promised = True
            self._lan.on_promise(node)
        self._send(self._deliver_reply, node, answer, promised)

    def _deliver_reply(self, node: "JobNode", answer: "asyncio.Future[bool]", promised: bool) -> None:
        if self._runner.alive and self._lan.connected(self._runner.machine.name, node.name):
            self._world.loop.deliver(self._runner.process, _resolve, answer, promised)


def _resolve(answer: "asyncio.Future[bool]", promised: bool) -> None:
    if not answer.done():
        answer.set_result(promised)
