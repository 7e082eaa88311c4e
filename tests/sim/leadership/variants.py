"""Broken variants of the agent. Each variant breaks one rule, and some schedule must catch it."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.node.agent import Agent
from holdfast.zk.leadership.election import Election
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.leadership.write_outcome import LeadershipLost, WriteCommitted, WriteOutcome
from holdfast.zk.session.client import (
    Client,
    ClientFactory,
    Committed,
    ConnectionState,
    Create,
    Operation,
    Rejected,
    WakeCallback,
    Znode,
)
from holdfast.zk.session.timing import Timing
from holdfast.zk.session.verified_client import VerifiedClient
from tests.sim.leadership.agent_node import PATHS, TIMING


class NoEpochCheck(Agent):
    """Agent whose leader writes check only the version of the written znode, not the epoch."""

    async def _take_epoch(self, election: Election, contender: str, epoch: Znode) -> None:
        await super()._take_epoch(election, contender, epoch)
        if self.leadership is not None:
            self.leadership._fence_checks = list  # type: ignore[method-assign]  # breaks the rule


class RetryingClient:
    """Client that resends a write in a new session after an expiry, as kazoo's `client.retry` does by default."""

    def __init__(self, connect: ClientFactory, wake: WakeCallback) -> None:
        self._connect = connect
        self._wake = wake
        self._inner: Client = connect(wake)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def state(self) -> ConnectionState:
        if self._inner.state is ConnectionState.ENDED and self._inner.end_reason != "closed by its owner":
            self._inner = self._connect(self._wake)
        return self._inner.state

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        while True:
            try:
                return await self._inner.commit(operations)
            except (SessionEnded, OutcomeUnknown, Unavailable):
                if any(isinstance(operation, Create) for operation in operations):
                    raise  # joining the election twice is a different variant
            while self.state is not ConnectionState.CONNECTED:  # noqa: ASYNC110 -- simulated time
                await asyncio.sleep(0.05)


class RetryAcrossExpiry(Agent):
    """Agent that resends a write in the next session if the write was lost with its session."""

    def __init__(self, *arguments: Any, connect: ClientFactory, **options: Any) -> None:
        super().__init__(*arguments, connect=lambda wake: RetryingClient(connect, wake), **options)


class DeadlineFromReply(Agent):
    """Agent whose confirmation counts from the time of the reply."""

    def _confirm_leadership(self, sent_at: float, timeout_s: float) -> None:
        now = self._clock.boottime()
        before = now - self.settings.timing.tick_s
        self._confirmation.record_contact(sent_at=before, answered_at=before)
        super()._confirm_leadership(now, timeout_s)


class ReadAsConfirmation(Agent):
    """Agent that after its first heartbeat only reads the epoch, and takes that for proof of leadership."""

    async def _send_heartbeat_if_due(self, client: Client, leadership: Leadership) -> None:
        if not self._leadership_confirmed:
            await super()._send_heartbeat_if_due(client, leadership)
            return
        sent_at = self._clock.boottime()
        self._heartbeat_sent_at = sent_at
        if (await client.get(PATHS.epoch)).stat.version == leadership.epoch:
            self._confirm_leadership(sent_at, client.timeout_s)


class FirstHeartbeatTrusted(Agent):
    """Agent whose first write after a long silence counts from its send time."""

    def _confirm_leadership(self, sent_at: float, timeout_s: float) -> None:
        before = sent_at - self.settings.timing.tick_s
        self._confirmation.record_contact(sent_at=before, answered_at=before)
        super()._confirm_leadership(sent_at, timeout_s)


class NoDeadline(Agent):
    """Agent that claims to lead until it learns of the end of its session. kazoo never reports LOST while disconnected."""

    def is_leading(self) -> bool:
        return self.leadership is not None


class ResultsNotInspected(Agent):
    """Agent that treats every transaction with a reply as committed. kazoo returns errors instead of raising them."""

    async def _take_epoch(self, election: Election, contender: str, epoch: Znode) -> None:
        await super()._take_epoch(election, contender, epoch)
        if self.leadership is not None:
            self.leadership.commit = _ignore_lost_leadership(self.leadership.commit)  # type: ignore[method-assign, assignment]  # breaks the rule


Commit = Callable[[Sequence[Operation]], Coroutine[Any, Any, WriteOutcome]]


def _ignore_lost_leadership(commit: Commit) -> Commit:
    async def commit_blindly(operations: Sequence[Operation]) -> WriteOutcome:
        outcome = await commit(operations)
        return WriteCommitted(()) if isinstance(outcome, LeadershipLost) else outcome

    return commit_blindly


class ConfirmBeforeWriting(Agent):
    """Agent that claims leadership when it sends a heartbeat, not when the heartbeat is committed."""

    async def _send_heartbeat_if_due(self, client: Client, leadership: Leadership) -> None:
        self._confirm_leadership(self._clock.boottime(), client.timeout_s)
        await super()._send_heartbeat_if_due(client, leadership)


class JoinWithoutChecking(Agent):
    """Agent that creates its contender again if the reply was lost."""

    async def _join_and_lead(self, client: VerifiedClient, membership: Any, election: Election) -> None:
        election.join = _join_without_lookup(election)  # type: ignore[method-assign]  # breaks the rule
        await super()._join_and_lead(client, membership, election)


def _join_without_lookup(election: Election) -> Callable[[], Any]:
    async def join() -> str:
        if getattr(election, "_joined_as", None) is None:
            await election._client.commit([Create(PATHS.contender(election._prefix), ephemeral=True, sequential=True)])
            election._joined_as = await election._find_own_contender()  # type: ignore[attr-defined]  # added by this variant
        return str(election._joined_as)  # type: ignore[attr-defined]  # added by this variant

    return join


class UnvalidatedTiming(Timing):
    """Timing that accepts every combination of durations."""

    def find_problem(self, timeout_s: float) -> None:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class LeadershipVariant:
    """Broken variant of the agent, or the correct agent ("sound")."""

    broken_rule: str = ""
    """Rule that the variant does not follow."""
    caught_by: str = ""
    """Oracle that must report a violation, with the invariant's number if it has one."""
    agent: type[Agent] = Agent
    timing: Timing = TIMING
    check_recovery: bool = True
    """False if the variant may fail to recover, so that recovery is not checked."""


VARIANTS = {
    "sound": LeadershipVariant(),
    "no epoch check": LeadershipVariant(
        "Every leader write checks the epoch.",
        "invariant 3, LeadershipOracles._check_heartbeat",
        NoEpochCheck,
    ),
    "retry across expiry": LeadershipVariant(
        "No write is retried in another session.",
        "LeadershipOracles._check_claims",
        RetryAcrossExpiry,
        check_recovery=False,
    ),
    "deadline counted from the reply": LeadershipVariant(
        "A confirmation counts from the time at which it was sent.",
        "LeadershipOracles._check_session_end",
        DeadlineFromReply,
        check_recovery=False,
    ),
    "read taken for a confirmation": LeadershipVariant(
        "Only a committed write confirms leadership.",
        "LeadershipOracles._check_claims",
        ReadAsConfirmation,
        check_recovery=False,
    ),
    "first write after a pause trusted": LeadershipVariant(
        "The first write after a long silence does not prove that the session stays alive.",
        "LeadershipOracles._check_session_end",
        FirstHeartbeatTrusted,
        check_recovery=False,
    ),
    "no deadline of its own": LeadershipVariant(
        "A leader stops claiming leadership at its own deadline.",
        "LeadershipOracles._check_claims",
        NoDeadline,
        check_recovery=False,
    ),
    "margin too small": LeadershipVariant(
        "margin > heartbeat + tick + kill time.",
        "LeadershipOracles._check_session_end",
        Agent,
        UnvalidatedTiming(tick_s=TIMING.tick_s, margin_s=0.1),
        check_recovery=False,
    ),
    "results not inspected": LeadershipVariant(
        "The leader inspects the result of every transaction.",
        "LeadershipOracles._check_claims",
        ResultsNotInspected,
        check_recovery=False,
    ),
    "confirmed before commit": LeadershipVariant(
        "A heartbeat confirms leadership only when it is committed.",
        "LeadershipOracles._check_claims",
        ConfirmBeforeWriting,
        check_recovery=False,
    ),
    "election joined without lookup": LeadershipVariant(
        "A node joins the election once per session.",
        "LeadershipOracles._check_contender",
        JoinWithoutChecking,
        check_recovery=False,
    ),
}
