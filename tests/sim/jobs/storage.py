"""The storage that all nodes share: who has claimed which checkpoint, and the outcomes that were left in it."""

import asyncio
import random
from collections.abc import Callable

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Ending, Outcome, Report
from tests.sim.world import World


class Storage:
    looks_far_back = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{world.seed}/storage")
        self.on_outcome: Callable[[JobId], object] = lambda _: None
        self.claims: dict[JobId, dict[Attempt, str]] = {}
        self.outcomes: dict[JobId, dict[Attempt, Outcome]] = {}

    async def _travel(self) -> None:
        await asyncio.sleep(
            self._random.uniform(0.002, 0.05) if self._random.random() < 0.9 else self._random.uniform(0.05, 1.5)
        )

    async def untold(self, job: JobId, before: Report | None) -> Outcome | None:
        """An earlier end that ZooKeeper does not know of.

        One that finished is told in any case: had ZooKeeper known of it, there would be no later attempt.
        """
        await self._travel()
        outcomes = self.outcomes.get(job, {})
        for outcome in outcomes.values():
            if outcome.ending is Ending.FINISHED and self.looks_far_back:
                return outcome
        if before is not None and before.outcome is None:
            return outcomes.get(before.attempt)
        return None

    async def claim(self, job: JobId, attempt: Attempt, nonce: str) -> bool:
        await self._travel()
        claims = self.claims.setdefault(job, {})
        if max(claims, default=Attempt(0)) >= attempt:
            return claims.get(attempt) == nonce
        claims[attempt] = nonce
        self._world.record("claim", job, attempt)
        return True

    async def leave_outcome(self, job: JobId, attempt: Attempt, outcome: Outcome) -> None:
        await self._travel()
        self.outcomes.setdefault(job, {})[attempt] = outcome
        self._world.record("outcome left", job, attempt, outcome.ending.value)
        self.on_outcome(job)
