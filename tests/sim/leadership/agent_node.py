"""Simulated node: a real Holdfast agent, and the actions of its guard."""

import random
from typing import Any

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.model.codec import SCHEMA
from holdfast.model.identifiers import NodeId
from holdfast.node.agent import Agent, NodeSettings
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ClientFactory, SessionId
from holdfast.zk.session.timing import Timing
from tests.sim.world import World

PATHS = Paths("sim")
TIMEOUT_S = 10.0
TICK_S = 1.0
TIMING = Timing(heartbeat_s=1.0, tick_s=TICK_S, sync_limit=5, kill_s=1.0, margin_s=4.0)


class SimLastSeen:
    """In-memory replacement for the last-seen file. It survives every crash, as the file does."""

    def __init__(self) -> None:
        self.watermark: ClusterWatermark | None = None
        self.write_problem = ""

    def latest(self) -> ClusterWatermark | None:
        return self.watermark

    def record(self, watermark: ClusterWatermark) -> None:
        self.watermark = watermark


class SimLog:
    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self.problems: list[str] = []

    def info(self, event: str, **context: Any) -> None:
        self._world.record("log", self._node, event, context.get("epoch"))

    def warning(self, event: str, **context: Any) -> None:
        if "problem" in context:
            self.problems.append(context["problem"])
        self._world.record("log", self._node, event, context.get("epoch"), context.get("problem") or context.get("reason"))

    def error(self, event: str, **context: Any) -> None:
        """Fail the schedule if the code has caught an error that it did not expect."""
        self.warning(event, **context)
        if event == "internal error":
            self._world.fail(AssertionError(f"{self._node}: internal error: {context['problem']}"))


class SimNode:
    """Machine with an agent and its guard. `agent_class` is the real agent or a broken variant of it."""

    def __init__(self, world: World, name: str, agent_class: type[Agent] = Agent, timing: Timing = TIMING) -> None:
        self.world = world
        self.name = name
        self.process = f"{name}/agent"
        self.last_seen = SimLastSeen()
        self.log = SimLog(world, name)
        self.session: SessionId | None = None
        self.agent: Agent | None = None
        self.powered_off = False
        self._agent_class = agent_class
        self.timing = timing
        self.slots = 1
        self.address = ""
        self._random = random.Random(f"{world.seed}/{name}")
        # The default reply timeout makes many failures rare. Safety must not depend on it, so every other schedule disables it.
        self._reply_timeout_s = None if world.seed % 2 else 1000.0

    def start(self) -> None:
        """Start a new agent after the previous one is dead."""
        self.powered_off = False
        agent = self.agent = self._agent_class(
            NodeSettings(
                node=NodeId(self.name),
                record=NodeRecord(
                    slots=self.slots,
                    address=self.address,
                    version="sim",
                    newest_schema=SCHEMA,
                    ends_attempts=True,
                    certifies_expiry=True,
                ),
                paths=PATHS,
                timing=self.timing,
            ),
            connect=self.connect(),
            clock=self.world.clock(self.process),
            last_seen=self.last_seen,
            log=self.log,
            nonce=self.nonce,
            on_session=self._save_session,
            **self.agent_options(),
        )
        self.world.spawn(self.process, agent.run)

    def connect(self) -> ClientFactory:
        return self.world.connect(self.process, timeout_s=TIMEOUT_S, reply_timeout_s=self._reply_timeout_s)

    def nonce(self) -> str:
        return f"{self._random.getrandbits(48):012x}"

    def agent_options(self) -> dict[str, Any]:
        """Return additional arguments for the agent. This node only takes part in elections, so there are none."""
        return {}

    def _save_session(self, session: SessionId) -> None:
        self.session = session

    def crash(self) -> None:
        """Kill the agent. Its guard closes its session at once and starts a new agent."""
        if self.agent is None:
            return
        session, self.session, self.agent = self.session, None, None
        self.world.crash(self.process)
        if session is not None:
            self.world.schedule_at(self.world.now_s + self._random.uniform(0.001, 0.03), self.world.zk.close_session, session)
        self.world.schedule_at(self.world.now_s + self._random.uniform(0.3, 0.8), self._restart)

    def _restart(self) -> None:
        if self.agent is None and not self.powered_off:
            self.start()

    def power_off(self) -> None:
        """Cut the power of the machine, including the guard. The agent's session remains until it expires."""
        self.powered_off = True
        self.session, self.agent = None, None
        self.world.crash_machine(self.name)

    def is_leading(self) -> bool:
        return self.agent is not None and self.agent.is_leading()
