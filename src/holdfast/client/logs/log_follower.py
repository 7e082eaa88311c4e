"""Output of a job, from attempt to attempt and from node to node."""

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass

from holdfast.client.connection.retry import RetryingSession
from holdfast.client.connection.target import Target
from holdfast.client.logs.attempt_log import AttemptLog, LogSources, locate_logs
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.model.identifiers import Attempt
from holdfast.model.phase import Phase
from holdfast.model.plural import format_count
from holdfast.zk.records.job_lookup import find_job
from holdfast.zk.records.stored_job import StoredJob

POLL_S = 0.3
LOCATE_S = 1.0
"""Interval at which the job's state and the nodes' addresses are read again."""
SKIP_S = 10.0
"""Time that the unreadable rest of a finished attempt's log is retried before the follower skips it."""
OUTAGE_S = 300.0
"""Time that neither ZooKeeper nor the node may answer before the follower gives up."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LogOutput:
    """Bytes that one attempt printed."""

    attempt: Attempt
    data: bytes


async def read_logs(
    target: Target, text: str, *, attempt: int | None, tail: int | None, follow: bool, on_note: Note
) -> AsyncIterator[LogOutput]:
    """Yield the output of an attempt, by default the last one. With `follow`, continue until the job ends.

    Raise Refused if the attempt does not exist or no node has its log, and Unavailable if the node does not answer.
    """
    async with RetryingSession(target) as session:
        job = await session.call(lambda client: find_job(client, target.paths, text))
        if attempt is not None and attempt > job.attempt:
            raise Refused(f"{job.label} has no attempt {attempt}: it has had {format_count(job.attempt, 'attempt')} so far")
        first = Attempt(attempt) if attempt is not None else job.attempt
        if follow:
            log = AttemptLog(job.id, Attempt(max(first, 1)), tail=tail)
            outputs = LogFollower(session, target, job, log, on_note).run()
        elif first == 0:
            raise Refused(f"{job.label} has not run yet: {job.reason}")
        else:
            sources = await session.call(lambda client: locate_logs(client, target.paths, job.id))
            outputs = _read_available(AttemptLog(job.id, first, tail=tail), sources, on_note)
        async for output in outputs:
            if output.data:
                yield output


async def _read_available(log: AttemptLog, sources: LogSources, on_note: Note) -> AsyncIterator[LogOutput]:
    """Yield everything that the log contains now."""
    while True:
        chunk = await log.read(sources)
        if chunk.gap:
            on_note("a part of the output is missing: it was deleted before it could be read")
        yield LogOutput(log.attempt, chunk.data)
        if chunk.last:
            return


def split_lines(outputs: Iterable[LogOutput]) -> Iterator[str]:
    """Decode output as UTF-8 and yield its lines without line ends. An attempt's incomplete last line is a line too."""
    attempt: Attempt | None = None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for output in outputs:
        if attempt is not None and output.attempt != attempt and rest:
            yield rest
            rest = ""
            decoder.reset()
        attempt = output.attempt
        *lines, rest = (rest + decoder.decode(output.data)).split("\n")
        yield from lines
    if rest:
        yield rest


class LogFollower:
    """Follower of a job's output through restarts. Outages of ZooKeeper or a node only delay the output."""

    def __init__(self, session: RetryingSession, target: Target, job: StoredJob, log: AttemptLog, on_note: Note) -> None:
        self._session = session
        self._target = target
        self._job = job
        self._log = log
        self._note = on_note
        self._sources: LogSources | None = None
        self._reported = ""
        self._problems: dict[str, str] = {}
        self._answered_at = self._read_at = asyncio.get_running_loop().time()

    async def run(self) -> AsyncIterator[LogOutput]:
        located_at = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() - located_at >= LOCATE_S:
                located_at = loop.time()
                await self._locate()
            caught_up = False
            try:
                async for output in self._read():
                    yield output
                    caught_up = output.attempt == self._log.attempt
            except HoldfastError as error:
                caught_up = False
                self._report_problem("node", error)
            if self._sources is not None and self._is_done(self._sources.job, caught_up):
                return
            if loop.time() - self._answered_at > OUTAGE_S:
                raise Unavailable(f"the cluster has not answered for {OUTAGE_S:g} s: {'; '.join(self._problems.values())}")
            await asyncio.sleep(POLL_S)

    async def _locate(self) -> None:
        try:
            self._sources = await self._session.call(lambda client: locate_logs(client, self._target.paths, self._job.id))
        except Unavailable as error:
            self._report_problem("zookeeper", error)
            return
        self._record_answer()
        self._problems.pop("zookeeper", None)
        job = self._sources.job
        status = f"{job.label} is {job.phase or 'in an unknown phase'}: {job.reason}"
        if job.phase is not Phase.RUNNING and status != self._reported:
            self._note(status)
        self._reported = status

    async def _read(self) -> AsyncIterator[LogOutput]:
        """Yield everything that the current attempt's log contains now; nothing if the attempt has not started."""
        if self._sources is None or not _has_started(self._sources.job, self._log.attempt):
            return
        async for output in _read_available(self._log, self._sources, self._note):
            yield output
        self._record_answer()
        self._read_at = self._answered_at
        self._problems.pop("node", None)

    def _is_done(self, job: StoredJob, caught_up: bool) -> bool:
        """Return True if nothing is left to follow. Otherwise advance to the next attempt, if there is one."""
        if job.has_ended and job.attempt < self._log.attempt:
            return True  # the job ended before this attempt began
        is_over = job.has_ended or job.attempt > self._log.attempt
        has_given_up = asyncio.get_running_loop().time() - self._read_at > SKIP_S
        if not is_over or not (caught_up or has_given_up):
            return False
        if not caught_up:
            reason = self._problems.get("node", "no node has it")
            self._note(f"the rest of the output of attempt {self._log.attempt} cannot be read: {reason}")
        if job.attempt <= self._log.attempt:
            return True
        self._start_next_attempt(job)
        return False

    def _start_next_attempt(self, job: StoredJob) -> None:
        self._log = AttemptLog(job.id, Attempt(self._log.attempt + 1))
        self._read_at = asyncio.get_running_loop().time()
        self._problems.pop("node", None)
        node = job.node if job.attempt == self._log.attempt else None
        self._note(f"attempt {self._log.attempt}" + (f" on {node}" if node is not None else ""))

    def _record_answer(self) -> None:
        self._answered_at = asyncio.get_running_loop().time()

    def _report_problem(self, source: str, error: HoldfastError) -> None:
        """Report a problem once, until it is over."""
        if source not in self._problems:
            self._note(f"{error}; still following")
        self._problems[source] = str(error)


def _has_started(job: StoredJob, attempt: Attempt) -> bool:
    is_alive = job.lease is not None and job.lease.attempt == attempt
    return job.attempt > attempt or is_alive or (job.attempt == attempt and job.phase is not Phase.STARTING)
