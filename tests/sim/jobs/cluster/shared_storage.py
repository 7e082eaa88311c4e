"""Storage shared by all nodes: claims on checkpoints, and the outcomes saved in them."""

import asyncio
import random
from collections.abc import Callable

from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import Ending, Outcome, Report
from tests.sim.world import World


class SharedStorage:
    checks_all_attempts = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{world.seed}/storage")
        self.on_outcome: Callable[[JobId], object] = lambda _: None
        self.first_attempt: Callable[[JobId], int] = lambda _: 0
        """First attempt whose outcome concerns the next one: for a scheduled job, the first attempt of the open run."""
        self.claims: dict[JobId, dict[Attempt, str]] = {}
        self.outcomes: dict[JobId, dict[Attempt, Outcome]] = {}

    async def _delay(self) -> None:
        await asyncio.sleep(
            self._random.uniform(0.002, 0.05) if self._random.random() < 0.9 else self._random.uniform(0.05, 1.5)
        )

    async def find_unreported_outcome(self, job: JobId, previous_report: Report | None) -> Outcome | None:
        """Return an earlier outcome that ZooKeeper does not know of.

        An attempt that finished counts in any case: if ZooKeeper knew of it, there would be no later attempt of the job, or of
        the run of a scheduled job.
        """
        await self._delay()
        first = self.first_attempt(job)
        outcomes = {attempt: outcome for attempt, outcome in self.outcomes.get(job, {}).items() if attempt >= first}
        for outcome in outcomes.values():
            if outcome.ending is Ending.FINISHED and self.checks_all_attempts:
                return outcome
        if previous_report is not None and previous_report.outcome is None:
            return outcomes.get(previous_report.attempt)
        return None

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
