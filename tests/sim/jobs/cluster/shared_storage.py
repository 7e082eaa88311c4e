"""Storage shared by all nodes: claims on checkpoints, and the outcomes saved in them."""

import asyncio
import random
from collections.abc import Callable

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Outcome, Report
from holdfast.model.unreported_outcome import UnreportedOutcome, find_unreported_outcome, first_unreported_attempt
from tests.sim.world import World


class SharedStorage:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{world.seed}/storage")
        self.on_outcome: Callable[[JobId], object] = lambda _: None
        self.claims: dict[JobId, dict[Attempt, str]] = {}
        self.outcomes: dict[JobId, dict[Attempt, Outcome]] = {}

    async def _delay(self) -> None:
        await asyncio.sleep(
            self._random.uniform(0.002, 0.05) if self._random.random() < 0.9 else self._random.uniform(0.05, 1.5)
        )

    async def find_unreported_outcome(
        self, job: JobId, attempt: Attempt, previous_report: Report | None, *, is_scheduled: bool
    ) -> UnreportedOutcome | None:
        """Return an earlier outcome that ZooKeeper may lack, with the rule of real runners, before the attempt claims."""
        await self._delay()
        first = first_unreported_attempt(previous_report, is_scheduled=is_scheduled) if previous_report is not None else attempt
        outcomes = {each: outcome for each, outcome in self.outcomes.get(job, {}).items() if first <= each < attempt}
        return find_unreported_outcome(outcomes, max(self.claims.get(job, {}), default=0))

    async def claim(self, job: JobId, attempt: Attempt, nonce: str) -> bool:
        await self._delay()
        claims = self.claims.setdefault(job, {})
        if max(claims, default=Attempt(0)) >= attempt:
            return claims.get(attempt) == nonce
        claims[attempt] = nonce
        self._world.record("claim", job, attempt)
        return True

    async def save_outcome(self, job: JobId, attempt: Attempt, outcome: Outcome) -> None:
        await self._delay()
        self.outcomes.setdefault(job, {})[attempt] = outcome
        self._world.record("outcome left", job, attempt, outcome.ending.value)
        self.on_outcome(job)
