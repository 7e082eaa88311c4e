"""Users that submit jobs and set desired states. Each call runs in its own process and session until it is answered."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from holdfast.errors import HoldfastError, Refused
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec
from holdfast.zk.records.upgrade import upgrade
from holdfast.zk.session.client import Client, ConnectionState
from tests.sim.jobs.checks.committed_records import Commit, JobRecord
from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.jobs.cluster.job_node import Components
from tests.sim.leadership.agent_node import PATHS, TIMEOUT_S
from tests.sim.world import World

USERS_MACHINE = "users"
LONG_TRIAL_S = 1000.0


class Users:
    def __init__(self, world: World, components: Components, oracles: JobOracles) -> None:
        self._world = world
        self._components = components
        self._oracles = oracles
        # Seed strings never change: another string would change every schedule.
        self._random = random.Random(f"{world.seed}/people")
        self._count = 0
        self._stopped = False
        self.submitted: dict[str, JobId] = {}
        """Acknowledged submissions: job by request id."""
        self.cancelled: set[JobId] = set()
        """Jobs with an acknowledged cancel."""
        self.refusals: list[str] = []
        self.garbage_collected: set[JobId] = set()
        self._requests: dict[str, JobId] = {}
        oracles.records.on_part_written.append(self._check_request)

    # Actions

    def submit(self, at_s: float, spec: Spec, job: JobId, request: str, *, crash: bool = False) -> None:
        async def call(client: Client) -> None:
            id = await self._components.submit(client, PATHS, spec, job=job, request=request)
            self._world.record("submitted", request, id)
            first_job = self.submitted.setdefault(request, id)
            if first_job != id and first_job not in self.garbage_collected:
                self._oracles.report_violation(f"request {request} was answered with both {first_job} and {id}")

        self._world.schedule_at(at_s, self._start_client, call, crash)

    def set_desired(self, at_s: float, job: JobId, desired: Desired, *, repeat: bool = False, force: bool = False) -> None:
        async def call(client: Client) -> None:
            await self._components.set_desired(client, PATHS, job, desired, repeat=repeat, force=force)
            self._world.record("desired set", job, desired.value)
            if desired is Desired.CANCEL:
                self.cancelled.add(job)

        self._world.schedule_at(at_s, self._start_client, call, False)

    def upgrade(self, at_s: float, job: JobId) -> None:
        """Add a version of the program that behaves like the previous one, and stays on trial until the end of the schedule."""

        async def call(client: Client) -> None:
            script = f"job{self._count}.py"
            version = await upgrade(client, PATHS, job, lambda spec: replace(spec, script=script), trial_s=LONG_TRIAL_S)
            self._world.record("upgraded", job, version)

        self._world.schedule_at(at_s, self._start_client, call, False)

    def trust_checkpoint(self, at_s: float, job: JobId) -> None:
        async def call(client: Client) -> None:
            trust = CheckpointTrust("ada@laptop", "it is as it should be", 0.0, ())
            await self._components.set_desired(client, PATHS, job, Desired.RUN, repeat=True, trust=trust)
            self._world.record("checkpoint trusted", job)

        self._world.schedule_at(at_s, self._start_client, call, False)

    def _start_client(self, call: Callable[[Client], Awaitable[None]], crash: bool) -> None:
        self._count += 1
        name = f"{USERS_MACHINE}/{self._count}"
        self._world.spawn(name, lambda: self._retry_until_answered(name, call))
        if crash:
            self._world.schedule_at(self._world.now_s + self._random.uniform(0.0, 0.1), self._world.crash, name)

    async def _retry_until_answered(self, name: str, call: Callable[[Client], Awaitable[None]]) -> None:
        """Repeat the call, each time in a new session, until it succeeds or is refused."""
        while not self._stopped:
            client = self._world.connect(name, timeout_s=TIMEOUT_S)(lambda: None)
            try:
                while client.state is ConnectionState.CONNECTING:  # noqa: ASYNC110 -- simulated time
                    await asyncio.sleep(0.02)
                await call(client)
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
        self._stopped = True

    # Checks

    def _check_request(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Invariant 7: repeated submissions with one request id create one job, until that job is garbage-collected."""
        if after.garbage_collected and after.state is not None:
            self.garbage_collected.add(after.id)
        if part == "state" and before.state_version < 0 and after.state is not None and not commit.by_operator:
            request = str(after.state["request"])
            first_job = self._requests.setdefault(request, after.id)
            if first_job != after.id and first_job not in self.garbage_collected:
                self._oracles.report_violation(f"request {request} created both {first_job} and {after.id}")

    def check_acknowledged(self) -> None:
        """Invariants 5 and 6: acknowledged submissions exist, and acknowledged cancels hold."""
        for request, job in self.submitted.items():
            if self._requests.get(request) != job and job not in self.garbage_collected:
                self._oracles.report_violation(f"{job} was acknowledged (request {request}) but never committed")
        for job in sorted(self.cancelled):
            record = self._oracles.job_record(job)
            if record.desired != "cancel" and not record.tampered:
                self._oracles.report_violation(
                    f"the cancel of {job} was acknowledged, but the desired state is {record.desired}"
                )
