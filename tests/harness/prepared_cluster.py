"""Cluster whose znodes a test writes itself. No node runs, so every state is possible."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.model.cluster_records import NodeRecord, QuarantineRecord
from holdfast.model.codec import encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Event, JobState, Lease, Progress, Report, SparkApplication, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import Schedule
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import submit
from holdfast.zk.session.client import Client, Committed, Create, Delete, Operation, SetData
from holdfast.zk.session.client import ConnectionState as SessionState
from holdfast.zk.session.connection_settings import ConnectionSettings
from tests.harness.waiting import wait_until_async

T = TypeVar("T")

SECRET = "0123456789abcdef"
CONTENDER = "c-test-0000000000"


@dataclass(frozen=True)
class PreparedCluster:
    port: int
    root: str
    storage: Path

    @property
    def paths(self) -> Paths:
        return Paths("default", prefix=self.root)

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}{self.root}"

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = NetworkClient(ConnectionSettings((("127.0.0.1", self.port),), session_timeout_s=4), lambda: None)
        try:
            await wait_until_async(lambda: client.state is SessionState.CONNECTED, 30, "a session")
            yield client
        finally:
            await client.close()

    def run(self, question: Callable[[Client], Awaitable[T]]) -> T:
        async def ask() -> T:
            async with self.client() as client:
                return await question(client)

        return asyncio.run(ask())

    def commit(self, *operations: Operation) -> None:
        async def do(client: Client) -> None:
            outcome = await client.commit(operations)
            assert isinstance(outcome, Committed), outcome

        self.run(do)

    def create_skeleton(self) -> None:
        """Create the znodes that nodes create when they join. No node leads."""

        async def do(client: Client) -> None:
            for path in self.paths.required_znodes:
                await client.commit([Create(path)])
            await client.commit([Create(self.paths.storage, str(self.storage).encode())])
            await client.commit([Create(self.paths.secret, SECRET.encode())])

        self.run(do)
        self.storage.mkdir(parents=True, exist_ok=True)

    def put(self, path: str, data: bytes) -> None:
        """Create or overwrite a znode."""

        async def do(client: Client) -> None:
            stat = await client.exists(path)
            await client.commit([Create(path, data) if stat is None else SetData(path, data, stat.version)])

        self.run(do)

    def remove(self, path: str) -> None:
        async def do(client: Client) -> None:
            stat = await client.exists(path)
            assert stat is not None
            await client.commit([Delete(path, stat.version)])

        self.run(do)

    def get(self, path: str) -> bytes | None:
        async def do(client: Client) -> bytes | None:
            return (await client.get(path)).data if await client.exists(path) is not None else None

        return self.run(do)

    def add_node(
        self,
        node: str,
        *,
        address: str = "http://127.0.0.1:1",
        slots: int = 4,
        health: str = "",
        isolation: str = "",
        isolation_problem: str = "",
    ) -> None:
        record = NodeRecord(slots, address, "0", 1, health, isolation=isolation, isolation_problem=isolation_problem)
        self.put(self.paths.node(NodeId(node)), encode(record))

    def submit(
        self,
        job: str,
        *,
        name: str | None = None,
        slots: int = 1,
        arguments: tuple[str, ...] = (),
        schedule: Schedule | None = None,
    ) -> Spec:
        spec = Spec(name=name or job, script="words.py", blob="0" * 64, slots=slots, arguments=arguments, schedule=schedule)
        self.run(lambda client: submit(client, self.paths, spec, job=JobId(job), request=f"r-{job}"))
        return spec

    def write_state(
        self, job: str, phase: Phase, reason: str, *, attempt: int = 0, node: str | None = None, **fields: object
    ) -> JobState:
        """Write the state of a job, with one event, like a leader."""
        where = NodeId(node) if node is not None else None
        event = Event(1, time.time() - 90, phase, reason, Attempt(attempt), where, Epoch(1))
        state = JobState(phase, reason, Attempt(attempt), where, request=f"r-{job}", events=(event,), **fields)  # type: ignore[arg-type]  # any fields
        self.put(self.paths.job(JobId(job), "state"), encode(state))
        return state

    def write_lease(
        self,
        job: str,
        *,
        attempt: int = 1,
        node: str = "n1",
        progress: Progress | None = None,
        note: str = "",
        application: SparkApplication | None = None,
    ) -> None:
        record = Lease(
            Attempt(attempt),
            NodeId(node),
            runner_pid=11,
            driver_pid=12,
            progress=progress,
            note=note,
            isolation="namespace",
            application=application,
        )
        self.put(self.paths.job(JobId(job), "lease"), encode(record))

    def write_report(self, job: str, *, attempt: int = 1, node: str = "n1", progress: Progress | None = None) -> None:
        record = Report(Attempt(attempt), NodeId(node), time.time() - 60, progress=progress)
        self.put(self.paths.job(JobId(job), "report"), encode(record))

    def write_quarantine(self, job: str, reason: str, *, part: str = "", original: bytes = b"") -> None:
        record = QuarantineRecord(reason, part, time.time() - 30, Epoch(1), base64.b64encode(original).decode())
        self.put(self.paths.quarantine_entry(JobId(job)), encode(record))

    @contextlib.asynccontextmanager
    async def elect_leader(self, leader: str = "n1") -> AsyncIterator[None]:
        """Let a node lead for the duration of the context."""
        async with self.client() as client:
            await client.commit([Create(self.paths.contender(CONTENDER), ephemeral=True)])
            epoch = await client.get(self.paths.epoch)
            record = encode(EpochRecord(NodeId(leader), CONTENDER))
            await client.commit([SetData(self.paths.epoch, record, epoch.stat.version)])
            yield
