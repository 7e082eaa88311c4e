"""`holdfast logs`: what a job prints, wherever it runs."""

import asyncio
import sys
from pathlib import Path

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.render.sanitize import plain
from holdfast.client.attempt_log import AttemptLog, Seen, look
from holdfast.client.retry import Conversation
from holdfast.client.target import Target, find, target_options
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.model.identifiers import Attempt
from holdfast.model.phase import Phase
from holdfast.zk.records.job_reader import Job, find_job

POLL_S = 0.3
LOOK_S = 1.0
MOVE_ON_S = 10.0
"""For how long the log of an attempt that is over is asked for in vain, before it is left."""
OUTAGE_S = 300.0
"""For how long neither ZooKeeper nor the node may answer."""


@click.command()
@target_options
@job_argument()
@click.option("-f", "--follow", is_flag=True, help="Go on with what it prints from now on, through restarts, until it ends.")
@click.option("--attempt", type=click.IntRange(1), help="Which attempt. Default: the last one.")
@click.option("--tail", type=click.IntRange(0), help="Only the last lines.")
def logs(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    follow: bool,
    attempt: int | None,
    tail: int | None,
) -> None:
    """Print what a job has printed. Its node is asked for it."""
    target = find(directory, connect, cluster_name)
    asyncio.run(_logs(target, job, Attempt(attempt) if attempt is not None else None, tail, follow=follow))


async def _logs(target: Target, text: str, attempt: Attempt | None, tail: int | None, *, follow: bool) -> None:
    async with Conversation(target) as conversation:
        job = await conversation.ask(lambda client: find_job(client, target.paths, text))
        if attempt is not None and attempt > job.attempt:
            raise Refused(f"{job.label} has had {job.attempt} attempts so far, not {attempt}")
        first = attempt or job.attempt
        if follow:
            await Pursuit(conversation, target, job, AttemptLog(job.id, Attempt(max(first, 1)), tail=tail)).run()
        elif first == 0:
            raise Refused(f"{job.label} has not run yet: {job.reason}")
        else:
            seen = await conversation.ask(lambda client: look(client, target.paths, job.id))
            await _drain(AttemptLog(job.id, first, tail=tail), seen)


async def _drain(log: AttemptLog, seen: Seen) -> None:
    """Everything that there is now."""
    while True:
        piece = await log.read(seen)
        if piece.gap:
            _say("some of the output was dropped before it could be read")
        sys.stdout.buffer.write(piece.data)
        sys.stdout.buffer.flush()
        if piece.last:
            return


class Pursuit:
    """Follows one job, from attempt to attempt and from node to node, whoever leads and whatever is away for a while."""

    def __init__(self, conversation: Conversation, target: Target, job: Job, log: AttemptLog) -> None:
        self._conversation = conversation
        self._target = target
        self._job = job
        self._log = log
        self._seen: Seen | None = None
        self._standing = ""
        self._trouble: dict[str, str] = {}
        self._answered_at = self._read_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        looked_at = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() - looked_at >= LOOK_S:
                looked_at = loop.time()
                await self._look()
            caught_up = await self._read()
            if self._seen is not None and self._is_done(self._seen.job, caught_up):
                return
            if loop.time() - self._answered_at > OUTAGE_S:
                raise Unavailable(f"nothing has answered for {OUTAGE_S:g} s: {'; '.join(self._trouble.values())}")
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        try:
            self._seen = await self._conversation.ask(lambda client: look(client, self._target.paths, self._job.id))
        except Unavailable as error:
            self._complain("zookeeper", error)
            return
        self._answered()
        self._trouble.pop("zookeeper", None)
        job = self._seen.job
        standing = f"{job.label} is {job.phase or 'in an unknown phase'}: {job.reason}"
        if job.phase is not Phase.RUNNING and standing != self._standing:
            _say(standing)
        self._standing = standing

    async def _read(self) -> bool:
        """Whether everything has been read that there is now."""
        if self._seen is None or not _has_begun(self._seen.job, self._log.attempt):
            return False
        try:
            await _drain(self._log, self._seen)
        except HoldfastError as error:
            self._complain("node", error)
            return False
        self._answered()
        self._read_at = self._answered_at
        self._trouble.pop("node", None)
        return True

    def _is_done(self, job: Job, caught_up: bool) -> bool:
        """Whether there is nothing left to follow. Goes on to the next attempt, if there is one."""
        if job.ended and job.attempt < self._log.attempt:
            return True  # it ended before it began
        over = job.ended or job.attempt > self._log.attempt
        given_up = asyncio.get_running_loop().time() - self._read_at > MOVE_ON_S
        if not over or not (caught_up or given_up):
            return False
        if not caught_up:
            because = self._trouble.get("node", "nobody has it")
            _say(f"the rest of what attempt {self._log.attempt} printed cannot be had: {because}")
        if job.attempt <= self._log.attempt:
            return True
        self._log = AttemptLog(job.id, Attempt(self._log.attempt + 1))
        self._read_at = asyncio.get_running_loop().time()
        self._trouble.pop("node", None)
        node = job.node if job.attempt == self._log.attempt else None
        _say(f"attempt {self._log.attempt}" + (f" on {node}" if node is not None else ""))
        return False

    def _answered(self) -> None:
        self._answered_at = asyncio.get_running_loop().time()

    def _complain(self, about: str, error: HoldfastError) -> None:
        """Once, until it is over."""
        if about not in self._trouble:
            _say(f"{error}; still following")
        self._trouble[about] = str(error)


def _has_begun(job: Job, attempt: Attempt) -> bool:
    return job.attempt > attempt or (job.attempt == attempt and job.phase is not Phase.STARTING)


def _say(sentence: str) -> None:
    click.echo(f"holdfast: {plain(sentence)}", err=True)
