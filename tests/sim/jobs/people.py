"""People: they submit jobs and say what they want of them, each in a process and a session of its own, until they are
answered."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from holdfast.errors import HoldfastError, Refused
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec
from holdfast.zk.session.client import Client, State
from tests.sim.jobs.ledger import Commit, JobRecord
from tests.sim.jobs.node import Kit
from tests.sim.jobs.oracles import JobOracles
from tests.sim.nodes import PATHS, TIMEOUT_S
from tests.sim.world import World

MACHINE = "people"


class People:
    def __init__(self, world: World, kit: Kit, oracles: JobOracles) -> None:
        self._world = world
        self._kit = kit
        self._oracles = oracles
        self._random = random.Random(f"{world.seed}/people")
        self._count = 0
        self._over = False
        self.submitted: dict[str, JobId] = {}
        """Acknowledged, by request."""
        self.cancelled: set[JobId] = set()
        """Acknowledged."""
        self.refusals: list[str] = []
        self.swept: set[JobId] = set()
        self._requests: dict[str, JobId] = {}
        oracles.ledger.on_part.append(self._written)

    # What they do

    def submit(self, at_s: float, spec: Spec, job: JobId, request: str, *, crash: bool = False) -> None:
        async def act(client: Client) -> None:
            id = await self._kit.submit(client, PATHS, spec, job=job, request=request)
            self._world.record("submitted", request, id)
            known = self.submitted.setdefault(request, id)
            if known != id and known not in self.swept:
                self._oracles.violated(f"request {request} was answered with {known} and with {id}")

        self._world.at(at_s, self._send, act, crash)

    def say(self, at_s: float, job: JobId, desired: Desired, *, again: bool = False, force: bool = False) -> None:
        async def act(client: Client) -> None:
            await self._kit.want(client, PATHS, job, desired, again=again, force=force)
            self._world.record("said", job, desired.value)
            if desired is Desired.CANCEL:
                self.cancelled.add(job)

        self._world.at(at_s, self._send, act, False)

    def _send(self, act: Callable[[Client], Awaitable[None]], crash: bool) -> None:
        self._count += 1
        name = f"{MACHINE}/{self._count}"
        self._world.spawn(name, lambda: self._insist(name, act))
        if crash:
            self._world.at(self._world.now_s + self._random.uniform(0.0, 0.1), self._world.crash, name)

    async def _insist(self, name: str, act: Callable[[Client], Awaitable[None]]) -> None:
        """Until it is done, or refused. Whoever gets no answer asks again, under a new session."""
        while not self._over:
            client = self._world.connect(name, timeout_s=TIMEOUT_S)(lambda: None)
            try:
                while client.state is State.CONNECTING:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                await act(client)
                return
            except Refused as error:
                self.refusals.append(str(error))
                return
            except HoldfastError:
                pass
            finally:
                await client.close()
            await asyncio.sleep(self._random.uniform(0.2, 0.6))

    def stop(self) -> None:
        self._over = True

    # What they are owed

    def _written(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Invariant 7: a request is one job, however often it is sent, until the job is forgotten."""
        if after.swept and after.state is not None:
            self.swept.add(after.id)
        if part == "state" and before.state_version < 0 and after.state is not None and not commit.by_operator:
            request = str(after.state["request"])
            known = self._requests.setdefault(request, after.id)
            if known != after.id and known not in self.swept:
                self._oracles.violated(f"request {request} made {known} and {after.id}")

    def verdict(self) -> None:
        """Invariants 5 and 6: what was acknowledged is there."""
        for request, job in self.submitted.items():
            if self._requests.get(request) != job and job not in self.swept:
                self._oracles.violated(f"{job} was acknowledged (request {request}), and was never submitted")
        for job in sorted(self.cancelled):
            record = self._oracles.job(job)
            if record.desired != "cancel" and not record.touched:
                self._oracles.violated(f"the cancel of {job} was acknowledged, and it is wanted to {record.desired}")
