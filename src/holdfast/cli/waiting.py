"""Waiting for a job to come to something, and telling what happens meanwhile."""

import asyncio
import enum
import time
from collections.abc import Callable

import click
from rich.text import Text

from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import UNKNOWN, console, padded_phase, print_hanging
from holdfast.cli.render.times import stamp
from holdfast.client.retry import Conversation
from holdfast.client.target import Target
from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.model.phase import Phase
from holdfast.zk.records.job_reader import Job, read_job

POLL_S = 0.3


class Verdict(enum.Enum):
    GOOD = "it came to what was wanted"
    BAD = "it came to something else"


Judge = Callable[[Job], Verdict | None]
"""Of a job as it stands now; None as long as it cannot be told."""


def wait_for(target: Target, job: Job, judge: Judge) -> Job:
    """Until there is a verdict. Raises Refused if it is bad; an interruption leaves the job as it is."""
    found, verdict = wait(target, job, judge)
    refuse_bad(found, verdict)
    return found


def refuse_bad(job: Job, verdict: Verdict) -> None:
    if verdict is Verdict.BAD:
        raise Refused(f"{job.label} is {job.phase or UNKNOWN}: {job.reason}")


def wait(target: Target, job: Job, judge: Judge) -> tuple[Job, Verdict]:
    try:
        return asyncio.run(_wait(target, job.id, judge))
    except KeyboardInterrupt:
        name = plain(job.name or job.id)
        say(f"not waiting any more; the job is left as it is: 'holdfast show {name}' tells how it stands")
        raise


async def _wait(target: Target, id: JobId, judge: Judge) -> tuple[Job, Verdict]:
    told: tuple[Phase | None, str] | None = None
    async with Conversation(target) as conversation:
        while True:
            job = await conversation.insist(lambda client: read_job(client, target.paths, id), say)
            if job is None:
                raise Refused(f"job {id} is gone")
            if (job.phase, job.reason) != told:
                told = (job.phase, job.reason)
                _tell(job)
            if (verdict := judge(job)) is not None:
                return job, verdict
            await asyncio.sleep(POLL_S)


def _tell(job: Job) -> None:
    now = time.time()
    head = Text.assemble((f"{stamp(now, now)}  ", "dim"), padded_phase(job.phase))
    print_hanging(console(stderr=True), head, plain(job.reason))


def say(sentence: str) -> None:
    click.echo(f"holdfast: {plain(sentence)}", err=True)
