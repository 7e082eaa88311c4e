"""Invariants of leadership, checked at the server at the moment of each commit, independently of what the agents report."""

import json
from collections.abc import Sequence

from holdfast.zk.session.client import Create, Operation, SetData, Stat
from tests.sim.leadership.agent_node import PATHS, TIMEOUT_S, SimNode
from tests.sim.world import World

OPERATOR = "operator"
SAMPLE_S = 0.25
_EPOCH, _BEAT, _ELECTION = PATHS.epoch, PATHS.beat, PATHS.election


class InvariantViolation(AssertionError):
    """An invariant does not hold."""


class LeadershipOracles:
    """Oracles of leadership.

    Invariant 3: no write of a superseded leader is committed. Invariant 4: epochs only grow. Also: a node claims to lead only
    while its last heartbeat is recent and its session is alive.
    """

    def __init__(self, world: World, nodes: Sequence[SimNode]) -> None:
        self._world = world
        self._nodes = nodes
        self._epoch_sessions: dict[int, int] = {}
        """Session that won each epoch."""
        self._contenders_by_session: dict[int, int] = {}
        self._last_heartbeat_s: dict[int, float] = {}
        """Commit time of each session's last heartbeat."""
        self.epoch = 0
        self.commits = 0
        self.violations: list[str] = []
        world.zk.on_commit(self._check_commit)
        world.zk.on_session_end(self._check_session_end)
        world.schedule_at(SAMPLE_S, self._check_claims)

    def _check_commit(
        self, _: int, session: int, process: str, operations: Sequence[Operation], results: Sequence[str | Stat | None]
    ) -> None:
        self.commits += 1
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, SetData):
                if operation.path == _EPOCH and isinstance(result, Stat):
                    self._check_new_epoch(result.version, session, process)
                elif operation.path == _BEAT and process != OPERATOR:
                    self._check_heartbeat(json.loads(operation.data)["epoch"], session, process)
            elif isinstance(operation, Create) and operation.sequential and operation.path.startswith(_ELECTION):
                self._check_contender(session, process)

    def _check_new_epoch(self, version: int, session: int, process: str) -> None:
        if version <= self.epoch:
            self._report_violation(f"epoch {self.epoch} was followed by epoch {version}")
        self.epoch = version
        self._epoch_sessions[version] = session
        self._world.record("epoch", version, process)

    def _check_heartbeat(self, epoch: int, session: int, process: str) -> None:
        if epoch != self.epoch:
            self._report_violation(f"{process} wrote under epoch {epoch} while {self.epoch} is the newest")
        if self._epoch_sessions.get(epoch) != session:
            self._report_violation(f"{process} wrote under epoch {epoch}, which another session won")
        self._last_heartbeat_s[session] = self._world.now_s

    def _check_claims(self) -> None:
        """Check that each node that claims to lead has committed a heartbeat within its deadline."""
        now_s = self._world.now_s
        for node in self._nodes:
            if node.is_leading() and node.session is not None:
                silent_s = now_s - self._last_heartbeat_s.get(node.session.id, float("-inf"))
                if silent_s > TIMEOUT_S - node.timing.margin_s:
                    self._report_violation(
                        f"{node.process} claims to lead, but its last heartbeat was committed {silent_s:.1f} s ago"
                    )
        self._world.schedule_at(now_s + SAMPLE_S, self._check_claims)

    def _check_contender(self, session: int, process: str) -> None:
        self._contenders_by_session[session] = self._contenders_by_session.get(session, 0) + 1
        if self._contenders_by_session[session] > 1 and not self._contender_removed:
            self._report_violation(f"{process} joined the election twice in one session")

    _contender_removed = False

    def allow_rejoin(self) -> None:
        """Allow a second contender in one session, because an operator has deleted a contender."""
        self._contender_removed = True

    def _check_session_end(self, _: int, session: int, process: str, __: Sequence[str], reason: str) -> None:
        """Check that the owner of an expired session no longer claims to lead, even if it is paused."""
        if "expired" not in reason:
            return
        for node in self._nodes:
            owns = node.agent is not None and node.session is not None and node.session.id == session
            if owns and node.is_leading():
                self._report_violation(f"{process} still claims to lead when its session expires")

    def claimed_leaders(self) -> list[str]:
        return [node.name for node in self._nodes if node.is_leading()]

    def _report_violation(self, sentence: str) -> None:
        self._world.record("violation", sentence)
        self.violations.append(f"at {self._world.now_s:.3f} s: {sentence}")

    def raise_first_violation(self) -> None:
        if self.violations:
            raise InvariantViolation(self.violations[0])


def sets_data(operations: Sequence[Operation], path: str) -> bool:
    return any(isinstance(operation, SetData) and operation.path == path for operation in operations)
