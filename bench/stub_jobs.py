"""Records of jobs for benchmarks, written to a real ZooKeeper. This process holds the leases of the live jobs."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

from bench.failover import CLUSTER
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, Ending, JobState, Lease, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.zk.embedded import EmbeddedEnsemble
from holdfast.zk.kazoo_transport import client_factory
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord, RequestRecord
from holdfast.zk.session.client import Client, Committed, ConnectionState, Create, NodeExists, Operation, SetData
from holdfast.zk.session.connection_settings import ConnectionSettings

HOLDER = NodeId("holder")
ATTEMPT = Attempt(1)
PATHS = Paths(CLUSTER)
_JOBS_PER_TRANSACTION = 20
_TRANSACTIONS_AT_ONCE = 5
RETRY_S = 0.2


@contextlib.asynccontextmanager
async def open_session(ensemble: EmbeddedEnsemble, *, timeout_s: float = 20) -> AsyncIterator[Client]:
    hosts = tuple(("127.0.0.1", server.client_port) for server in ensemble.servers)
    awake = asyncio.Event()
    client = client_factory(ConnectionSettings(hosts, session_timeout_s=timeout_s))(awake.set)
    while client.state is not ConnectionState.CONNECTED:
        await awake.wait()
        awake.clear()
    try:
        yield client
    finally:
        await client.close()


async def register_holder(client: Client, slots: int) -> None:
    """Register the node on which the live jobs run."""
    record = NodeRecord(slots=slots, address="", version="bench", newest_schema=SCHEMA)
    await client.commit([Create(PATHS.node(HOLDER), encode(record), ephemeral=True)])


async def create_cluster(client: Client) -> None:
    """Create the znodes of an empty cluster."""
    operations = [Create(path, shared=path in PATHS.shared_parents) for path in PATHS.required_znodes]
    assert isinstance(await client.commit(operations), Committed)


async def create_jobs(client: Client, operations: Callable[[int], Sequence[Operation]], numbers: range) -> None:
    """Create the jobs with these numbers, many in one transaction."""
    step = _JOBS_PER_TRANSACTION
    batches = [numbers[first : first + step] for first in range(0, len(numbers), step)]
    for first in range(0, len(batches), _TRANSACTIONS_AT_ONCE):
        group = batches[first : first + _TRANSACTIONS_AT_ONCE]
        await asyncio.gather(*(_commit(client, [each for number in batch for each in operations(number)]) for batch in group))


async def _commit(client: Client, operations: list[Operation]) -> None:
    """Commit the operations, which create znodes, and again after a lost reply: then the znodes may exist already."""
    while True:
        try:
            outcome = await client.commit(operations)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(RETRY_S)
            continue
        assert isinstance(outcome, Committed) or isinstance(outcome.error, NodeExists), outcome
        return


def live_job(number: int) -> list[Operation]:
    """Return the operations that create a job whose runner is alive."""
    job = JobId(f"job-{number}")
    name, lease = PATHS.name(f"name-{number}"), Lease(ATTEMPT, HOLDER, nonce="x")
    return [
        Create(name, encode(NameRecord(job))),
        *_records(job, number, Report(ATTEMPT, HOLDER, time.time(), nonce="x")),
        Create(PATHS.job(job, "lease"), encode(lease), ephemeral=True),
        # A job without `state` counts as malformed, so `state` comes last. All of this is one transaction.
        Create(PATHS.job(job, "state"), encode(_running_state(number))),
    ]


def ended_job(number: int) -> list[Operation]:
    """Return the operations that create the record of a job that has finished."""
    job, finished = JobId(f"ended-{number}"), Outcome(Ending.FINISHED, "the script ended")
    state = _running_state(number).transition_to(Phase.FINISHED, finished.reason, wall=time.time(), epoch=Epoch(1))
    return [
        *_records(job, number, Report(ATTEMPT, HOLDER, time.time(), nonce="x", outcome=finished, dead=True)),
        Create(PATHS.job(job, "state"), encode(state)),
    ]


def waiting_job(number: int) -> list[Operation]:
    """Return the operations that create a cancelled job that no node runs yet. The leader ends it without a node."""
    job = JobId(f"waiting-{number}")
    return [
        Create(PATHS.job(job)),
        Create(PATHS.job(job, "spec"), encode(_spec(f"waiting-{number}"))),
        Create(PATHS.job(job, "desired"), encode(DesiredRecord(Desired.CANCEL))),
        Create(PATHS.job(job, "attempt")),
        Create(PATHS.job(job, "report")),
        Create(PATHS.name(f"waiting-{number}"), encode(NameRecord(job))),
        Create(PATHS.job(job, "state"), encode(JobState(Phase.PENDING, "submitted"))),
    ]


def _spec(name: str) -> Spec:
    return Spec(name=name, script="job.py", blob="0" * 64, arguments=("--input", "/data/in" * 20))


def _records(job: JobId, number: int, report: Report) -> list[Operation]:
    """Return the operations that create the request of a job and all its parts except `lease` and `state`."""
    return [
        Create(PATHS.request(f"r-{job}"), encode(RequestRecord(job, "0" * 64))),
        Create(PATHS.job(job)),
        Create(PATHS.job(job, "spec"), encode(_spec(f"name-{number}"))),
        Create(PATHS.job(job, "desired"), encode(DesiredRecord(Desired.RUN))),
        Create(PATHS.job(job, "attempt")),
        SetData(PATHS.job(job, "attempt"), b"", 0),
        Create(PATHS.job(job, "report"), encode(report)),
    ]


def _running_state(number: int) -> JobState:
    state = JobState(Phase.PENDING, "submitted", request=f"r-job-{number}")
    for phase in (Phase.STARTING, Phase.RUNNING):
        state = state.transition_to(
            phase, f"attempt 1 on {HOLDER}", wall=time.time(), epoch=Epoch(1), attempt=ATTEMPT, node=HOLDER
        )
    return state
