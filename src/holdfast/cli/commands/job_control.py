"""`holdfast stop`, `resume`, `restart` and `cancel`: what a person wants of a job from now on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.times import age
from holdfast.cli.waiting import Verdict, wait_for
from holdfast.client.retry import act
from holdfast.client.target import Target, find, target_options
from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired
from holdfast.model.phase import Phase
from holdfast.zk.records.cluster_view import observe
from holdfast.zk.records.job_reader import Job, find_job, read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import want
from holdfast.zk.session.client import Client


@dataclass(frozen=True, slots=True)
class Word:
    """What is said about a job, and what people are told about it."""

    desired: Desired
    again: bool = False
    force: bool = False
    happens: str = ""
    """What happens next."""


Decide = Callable[[Job], Word | str]
"""What to say about a job that stands like this; or, in a sentence, why nothing has to be said."""


def _steering(command: Any) -> Any:
    """The options and the argument that these commands share."""
    for option in (target_options, job_argument(), click.option("--wait", is_flag=True, help="Until it has taken effect.")):
        command = option(command)
    return command


@click.command()
@_steering
@click.option("--savepoint", is_flag=True, help="And keep a copy of its checkpoint, once it has stopped.")
def stop(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool, savepoint: bool) -> None:
    """Stop a job, and keep it. It ends at its next batch boundary; 'resume' starts it again."""
    target = find(directory, connect, cluster_name)
    steered = _say(target, job, _stop)
    if wait or savepoint:
        stopped = wait_for(target, steered, _until_stopped)
    if savepoint:
        from holdfast.cli.commands.savepoint import make_savepoint, tell_made

        tell_made(make_savepoint(target, stopped), as_json=False)


@click.command()
@_steering
def cancel(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool) -> None:
    """End a job for good. At once, and it never runs again."""
    target = find(directory, connect, cluster_name)
    steered = _say(target, job, _cancel)
    if wait:
        wait_for(target, steered, _until_ended)


@click.command()
@_steering
@click.option("--force", is_flag=True, help="The last attempt is surely dead, whatever nobody has certified.")
def restart(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool, force: bool) -> None:
    """End the running attempt, and begin another. The running one ends at its next batch boundary."""
    target = find(directory, connect, cluster_name)
    steered = _say(target, job, lambda found: _restart(found, force=force))
    if wait:
        wait_for(target, steered, _until_running(after=steered.attempt))


@click.command()
@_steering
@click.option(
    "--offsets",
    metavar="keep|earliest|latest|FILE",
    help='Where its Kafka sources go on, for the partitions that something is wrong with. FILE: {"topic": {"0": 17}}.',
)
def resume(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool, offsets: str | None
) -> None:
    """Start a job again that was stopped, or that waits for a person."""
    target = find(directory, connect, cluster_name)
    if offsets is not None:
        from holdfast.cli.render.offsets import leave_choice

        leave_choice(target, job, offsets)
    steered = _say(target, job, _resume)
    if wait:
        wait_for(target, steered, _until_running(after=None))


def stop_and_wait(target: Target, job: Job) -> Job:
    """For commands whose own answer is something else: this one is told on the side."""
    return wait_for(target, _say(target, job.id, _stop, aside=True), _until_stopped)


def cancel_and_wait(target: Target, job: Job) -> Job:
    return wait_for(target, _say(target, job.id, _cancel, aside=True), _until_ended)


def _say(target: Target, text: str, decide: Decide, *, aside: bool = False) -> Job:
    """Say it, and tell what was before and what happens next. Returns the job as it was."""

    async def action(client: Client) -> tuple[Job, str, bool]:
        job = await find_job(client, target.paths, text)
        word = decide(job)
        if isinstance(word, Word):
            await want(client, target.paths, job.id, word.desired, again=word.again, force=word.force)
            await _refuse_if_ended(client, target.paths, job.id, word)
        said = word.happens if isinstance(word, Word) else word
        return job, said, (await observe(client, target.paths)).leader is not None

    job, said, led = act(target, action, repeatable=False)
    click.echo(f"{plain(job.label)} {plain(said)}", err=aside)
    if not led:
        click.echo("no node leads at the moment: it takes effect as soon as one does", err=True)
    return job


async def _refuse_if_ended(client: Client, paths: Paths, id: JobId, word: Word) -> None:
    """It may have ended between our look and our word."""
    job = await read_job(client, paths, id)
    as_wanted = word.desired is Desired.CANCEL and job is not None and job.phase is Phase.CANCELLED
    if job is not None and job.ended and not as_wanted:
        raise Refused(_ended(job))


# What to say


def _stop(job: Job) -> Word | str:
    refuse_unsteerable(job)
    if job.wanted is not None and job.wanted.desired is Desired.STOP:
        return f"was asked to stop before: {job.phase}: {job.reason}"
    if job.lease is not None:
        return Word(
            Desired.STOP, happens=f"runs on {job.lease.node}, and stops at its next batch boundary; 'resume' starts it again"
        )
    return Word(Desired.STOP, happens=f"was {job.phase} ({job.reason}), and is not started any more; 'resume' starts it again")


def _cancel(job: Job) -> Word | str:
    _refuse_ended(job)
    if job.wanted is not None and job.wanted.desired is Desired.CANCEL:
        return f"was cancelled before: {job.phase}: {job.reason}"
    if job.lease is not None:
        return Word(Desired.CANCEL, happens=f"runs on {job.lease.node}, and is ended there at once, for good")
    return Word(Desired.CANCEL, happens=f"was {job.phase} ({job.reason}), and never runs again")


def _restart(job: Job, *, force: bool) -> Word | str:
    refuse_unsteerable(job)
    if job.lease is not None:
        happens = (
            f"runs on {job.lease.node}, attempt {job.lease.attempt}, which ends at its next batch boundary; then another begins"
        )
    else:
        happens = f"was {job.phase} ({job.reason}), and is started as soon as there is room"
    return Word(Desired.RUN, again=True, force=force, happens=happens)


def _resume(job: Job) -> Word | str:
    """Only what does not run: to say 'run' once more to what does would restart it."""
    refuse_unsteerable(job)
    if job.wanted is not None and job.wanted.desired is Desired.STOP:
        # Not `again`: if somebody else has resumed it meanwhile, nothing more is to be said.
        return Word(Desired.RUN, happens=f"was {job.phase} ({job.reason}), and is started again as soon as there is room")
    if job.phase is Phase.PARKED:
        return Word(
            Desired.RUN, again=True, happens=f"was parked ({job.reason}), and is started again as soon as there is room"
        )
    return f"is not stopped: {job.phase}: {job.reason}"


def refuse_unsteerable(job: Job) -> None:
    _refuse_ended(job)
    _refuse_quarantined(job)


def _refuse_ended(job: Job) -> None:
    if job.ended:
        raise Refused(_ended(job))


def _ended(job: Job) -> str:
    return f"{job.label} ended already: {job.phase} {age(job.since, time.time())} ago: {job.reason}"


def _refuse_quarantined(job: Job) -> None:
    if job.phase is Phase.QUARANTINED:
        raise Refused(
            f"{job.label} is in quarantine ({job.reason}); "
            f"'holdfast quarantine release {job.id}' lets it run once it is mended, 'holdfast cancel {job.id}' ends it"
        )


# When it has taken effect


def _until_stopped(job: Job) -> Verdict | None:
    if job.ended or (job.phase is Phase.PARKED and job.lease is None):
        return Verdict.GOOD
    return Verdict.BAD if job.phase is Phase.QUARANTINED else None


def _until_ended(job: Job) -> Verdict | None:
    return Verdict.GOOD if job.ended else None


def _until_running(*, after: int | None) -> Callable[[Job], Verdict | None]:
    """In a later attempt than that."""

    def judge(job: Job) -> Verdict | None:
        if job.ended or job.phase is Phase.QUARANTINED:
            return Verdict.GOOD if job.phase is Phase.FINISHED else Verdict.BAD
        later = after is None or job.attempt > after
        if job.phase is Phase.PARKED and later:
            return Verdict.BAD
        return Verdict.GOOD if later and job.phase is Phase.RUNNING and job.lease is not None else None

    return judge
