"""Deliberately broken agents. Each breaks one rule that safety stands on, and each must be caught by some schedule."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.node.agent import Agent
from holdfast.zk.leadership.election import Election
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.leadership.write_outcome import Done, LeadershipLost, Outcome
from holdfast.zk.session.client import Client, Committed, Connect, Create, Operation, Rejected, State, Wake, Znode
from holdfast.zk.session.timing import Timing
from tests.sim.nodes import PATHS, TIMING


class NoEpochCheck(Agent):
    """A leader's writes check the version of what they write, but not that its reign is the newest."""

    async def _ascend(self, election: Election, mine: str, epoch: Znode) -> None:
        await super()._ascend(election, mine, epoch)
        if self.reign is not None:
            self.reign._fence = list  # type: ignore[method-assign, assignment]


class RetryingClient:
    """What `client.retry` of kazoo does by default: after an expiry it sends the same again, under a new session."""

    def __init__(self, connect: Connect, wake: Wake) -> None:
        self._connect = connect
        self._wake = wake
        self._inner: Client = connect(wake)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def state(self) -> State:
        if self._inner.state is State.ENDED and self._inner.ended_because != "closed by its owner":
            self._inner = self._connect(self._wake)
        return self._inner.state

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        while True:
            try:
                return await self._inner.commit(operations)
            except (SessionEnded, OutcomeUnknown, Unavailable):
                if any(isinstance(operation, Create) for operation in operations):
                    raise  # joining twice is another variant
            while self.state is not State.CONNECTED:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


class RetryAcrossExpiry(Agent):
    """A write that was lost with its session is sent again under the next one."""

    def __init__(self, *arguments: Any, connect: Connect, **options: Any) -> None:
        super().__init__(*arguments, connect=lambda wake: RetryingClient(connect, wake), **options)  # type: ignore[arg-type, return-value]


class DeadlineFromTheReply(Agent):
    """A confirmation counts from when its reply came."""

    def _confirm(self, sent_at: float, timeout_s: float) -> None:
        now = self._clock.boottime()
        before = now - self.settings.timing.tick_s
        self._confirmation.heard(sent_at=before, answered_at=before)
        super()._confirm(now, timeout_s)


class ReadAsConfirmation(Agent):
    """To have read one's own epoch is taken for proof that one still leads: after the first beat, none is written."""

    async def _beat_if_due(self, client: Client, reign: Reign) -> None:
        if not self._claimed:
            await super()._beat_if_due(client, reign)
            return
        sent_at = self._clock.boottime()
        self._beat_sent_at = sent_at
        if (await client.get(PATHS.epoch)).stat.version == reign.epoch:
            self._confirm(sent_at, client.timeout_s)


class FirstWriteTrusted(Agent):
    """A write counts from when it was sent, even if nothing was heard of the session for a long time before."""

    def _confirm(self, sent_at: float, timeout_s: float) -> None:
        before = sent_at - self.settings.timing.tick_s
        self._confirmation.heard(sent_at=before, answered_at=before)
        super()._confirm(sent_at, timeout_s)


class NoDeadline(Agent):
    """Who has won and was told nothing else believes to lead: kazoo never says LOST while it is cut off."""

    def leading(self) -> bool:
        return self.reign is not None


class ResultsNotInspected(Agent):
    """A transaction that came back is taken for one that took effect: kazoo returns errors, it does not raise them."""

    async def _ascend(self, election: Election, mine: str, epoch: Znode) -> None:
        await super()._ascend(election, mine, epoch)
        if self.reign is not None:
            self.reign.commit = _blind(self.reign.commit)  # type: ignore[method-assign]


def _blind(commit: Callable[[Sequence[Operation]], Any]) -> Callable[[Sequence[Operation]], Any]:
    async def blind(operations: Sequence[Operation]) -> Outcome:
        outcome: Outcome = await commit(operations)
        return Done(()) if isinstance(outcome, LeadershipLost) else outcome

    return blind


class ConfirmBeforeWriting(Agent):
    """Leadership is claimed when the beat is sent, not when it is committed."""

    async def _beat_if_due(self, client: Client, reign: Reign) -> None:
        self._confirm(self._clock.boottime(), client.timeout_s)
        await super()._beat_if_due(client, reign)


class JoinWithoutLooking(Agent):
    """A contender whose reply was lost is created once more."""

    async def _pass(self, client: Client, membership: Any, election: Election) -> None:
        election.stand = _stand_blindly(election)  # type: ignore[method-assign]
        await super()._pass(client, membership, election)


def _stand_blindly(election: Election) -> Callable[[], Any]:
    async def stand() -> str:
        if getattr(election, "_joined_as", None) is None:
            await election._client.commit([Create(PATHS.contender(election._prefix), ephemeral=True, sequential=True)])
            election._joined_as = await election._mine()  # type: ignore[attr-defined]
        return str(election._joined_as)  # type: ignore[attr-defined]

    return stand


class Reckless(Timing):
    """Whatever the durations are, it has no objection."""

    def objection(self, timeout_s: float) -> None:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    agent: type[Agent] = Agent
    timing: Timing = TIMING
    lives: bool = True
    """Whether it is also judged by whether it recovers."""


VARIANTS = {
    "sound": Variant(),
    "no epoch check": Variant(NoEpochCheck),
    "retry across expiry": Variant(RetryAcrossExpiry, lives=False),
    "deadline counted from the reply": Variant(DeadlineFromTheReply, lives=False),
    "a read taken for a confirmation": Variant(ReadAsConfirmation, lives=False),
    "the first write after a pause trusted": Variant(FirstWriteTrusted, lives=False),
    "no deadline of its own": Variant(NoDeadline, lives=False),
    "margin too small": Variant(Agent, Reckless(tick_s=TIMING.tick_s, margin_s=0.1), lives=False),
    "results not inspected": Variant(ResultsNotInspected, lives=False),
    "confirmed before it is written": Variant(ConfirmBeforeWriting, lives=False),
    "joining the election without looking": Variant(JoinWithoutLooking, lives=False),
}
