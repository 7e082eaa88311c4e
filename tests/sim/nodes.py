"""Whole nodes in the simulated world: the product's own agent, and what its guard would do."""

import random
from typing import Any

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.cluster_watermark import Sighting
from holdfast.model.codec import SCHEMA
from holdfast.model.identifiers import NodeId
from holdfast.node.agent import Agent, NodeSettings
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Connect, SessionId
from holdfast.zk.session.timing import Timing
from tests.sim.world import World

PATHS = Paths("sim")
TIMEOUT_S = 10.0
TICK_S = 1.0
TIMING = Timing(heartbeat_s=1.0, tick_s=TICK_S, sync_limit=5, kill_s=1.0, margin_s=4.0)


class SimMemory:
    """A file, as far as the agent can tell: it survives every crash."""

    def __init__(self) -> None:
        self.sighting: Sighting | None = None

    def recall(self) -> Sighting | None:
        return self.sighting

    def remember(self, sighting: Sighting) -> None:
        self.sighting = sighting


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

    error = warning


class SimNode:
    """A machine with an agent and its guard. `kind` is the agent's class: the real one, or a broken variant of it."""

    def __init__(self, world: World, name: str, kind: type[Agent] = Agent, timing: Timing = TIMING) -> None:
        self.world = world
        self.name = name
        self.process = f"{name}/agent"
        self.memory = SimMemory()
        self.log = SimLog(world, name)
        self.session: SessionId | None = None
        self.agent: Agent | None = None
        self.lost = False
        self._kind = kind
        self.timing = timing
        self.slots = 1
        self.address = ""
        self._random = random.Random(f"{world.seed}/{name}")
        # Impatience makes many bad things rare. Nothing may depend on it, so half of the schedules do without.
        self._patience_s = None if world.seed % 2 else 1000.0

    def start(self) -> None:
        """A new agent, in the place of one that is dead."""
        self.lost = False
        agent = self.agent = self._kind(
            NodeSettings(
                node=NodeId(self.name),
                record=NodeRecord(slots=self.slots, address=self.address, version="sim", newest_schema=SCHEMA),
                paths=PATHS,
                timing=self.timing,
            ),
            connect=self.connect(),
            clock=self.world.clock(self.process),
            memory=self.memory,
            log=self.log,
            nonce=self.nonce,
            on_session=self._keep,
            **self.duties(),
        )
        self.world.spawn(self.process, agent.run)

    def connect(self) -> Connect:
        return self.world.connect(self.process, timeout_s=TIMEOUT_S, patience_s=self._patience_s)

    def nonce(self) -> str:
        return f"{self._random.getrandbits(48):012x}"

    def duties(self) -> dict[str, Any]:
        """What the agent is given to do besides standing for leader: here nothing."""
        return {}

    def _keep(self, session: SessionId) -> None:
        self.session = session

    def crash(self) -> None:
        """The agent dies. Its guard closes its session at once and starts another."""
        if self.agent is None:
            return
        session, self.session, self.agent = self.session, None, None
        self.world.crash(self.process)
        if session is not None:
            self.world.at(self.world.now_s + self._random.uniform(0.001, 0.03), self.world.zk.close_session, session)
        self.world.at(self.world.now_s + self._random.uniform(0.3, 0.8), self._restart)

    def _restart(self) -> None:
        if self.agent is None and not self.lost:
            self.start()

    def lose(self) -> None:
        """The whole machine is gone, guard and all. Nobody closes anything."""
        self.lost = True
        self.session, self.agent = None, None
        self.world.crash_machine(self.name)

    def leading(self) -> bool:
        return self.agent is not None and self.agent.leading()
