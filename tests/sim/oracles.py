"""What must hold in every schedule, judged at the server at the moment of each commit. Nobody's own account counts."""

import json
from collections.abc import Sequence

from holdfast.zk.session.client import Create, Operation, SetData, Stat
from tests.sim.nodes import PATHS, TIMEOUT_S, SimNode
from tests.sim.world import World

OPERATOR = "operator"
SAMPLE_S = 0.25


class Violation(AssertionError):
    """An invariant is broken."""


class Oracles:
    """Invariants 3 (no write of a superseded leader lands), 4 (epochs only grow) and that no two nodes claim to lead."""

    def __init__(self, world: World, nodes: Sequence[SimNode]) -> None:
        self._world = world
        self._nodes = nodes
        self._owners: dict[int, int] = {}
        """The session that won each epoch."""
        self._contenders: dict[int, int] = {}
        self._last_beat_s: dict[int, float] = {}
        """When the last beat of each session was committed."""
        self.epoch = 0
        self.commits = 0
        self.violations: list[str] = []
        world.zk.on_commit(self._committed)
        world.zk.on_session_end(self._session_ended)
        world.at(SAMPLE_S, self._sample)

    def _committed(
        self, _: int, session: int, process: str, operations: Sequence[Operation], results: Sequence[str | Stat | None]
    ) -> None:
        self.commits += 1
        for operation, result in zip(operations, results, strict=True):
            match operation:
                case SetData(PATHS.epoch) if isinstance(result, Stat):
                    self._epoch_taken(result.version, session, process)
                case SetData(PATHS.beat, data) if process != OPERATOR:
                    self._leader_wrote(json.loads(data)["epoch"], session, process)
                case Create(path, _, _, True) if path.startswith(PATHS.election):
                    self._joined(session, process)
                case _:
                    pass

    def _epoch_taken(self, version: int, session: int, process: str) -> None:
        if version <= self.epoch:
            self._violated(f"epoch {version} follows epoch {self.epoch}")
        self.epoch = version
        self._owners[version] = session
        self._world.record("epoch", version, process)

    def _leader_wrote(self, epoch: int, session: int, process: str) -> None:
        if epoch != self.epoch:
            self._violated(f"{process} wrote under epoch {epoch} while {self.epoch} is the newest")
        if self._owners.get(epoch) != session:
            self._violated(f"{process} wrote under epoch {epoch} in another session than the one that won it")

        self._last_beat_s[session] = self._world.now_s

    def _sample(self) -> None:
        """Who claims to lead has written, and not longer ago than the deadline allows, counted from the commit itself."""
        now_s = self._world.now_s
        for node in self._nodes:
            if node.leading() and node.session is not None:
                silent_s = now_s - self._last_beat_s.get(node.session.id, float("-inf"))
                if silent_s > TIMEOUT_S - node.timing.margin_s:
                    self._violated(f"{node.process} claims to lead though its last beat was committed {silent_s:.1f} s ago")
        self._world.at(now_s + SAMPLE_S, self._sample)

    def _joined(self, session: int, process: str) -> None:
        self._contenders[session] = self._contenders.get(session, 0) + 1
        if self._contenders[session] > 1 and not self._deposed:
            self._violated(f"{process} joined the election twice in one session")

    _deposed = False

    def contender_removed(self) -> None:
        """By an operator: whoever it was may join again."""
        self._deposed = True

    def _session_ended(self, _: int, session: int, process: str, __: Sequence[str], reason: str) -> None:
        """Whoever held it must not claim to lead any more, not even while it is paused: its next look would mislead it."""
        if "expired" not in reason:
            return
        for node in self._nodes:
            owns = node.agent is not None and node.session is not None and node.session.id == session
            if owns and node.leading():
                self._violated(f"{process} still claims to lead when its session expires")

    def claimants(self) -> list[str]:
        return [node.name for node in self._nodes if node.leading()]

    def _violated(self, sentence: str) -> None:
        self._world.record("violation", sentence)
        self.violations.append(f"at {self._world.now_s:.3f} s: {sentence}")

    def verdict(self) -> None:
        if self.violations:
            raise Violation(self.violations[0])


def writes(operations: Sequence[Operation], path: str) -> bool:
    return any(isinstance(operation, SetData) and operation.path == path for operation in operations)
