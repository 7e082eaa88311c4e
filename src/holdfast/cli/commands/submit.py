"""`holdfast submit`: a program becomes a job."""

import json
import secrets
from dataclasses import replace
from pathlib import Path

import click

from holdfast.cli.commands.ls import job_as_json
from holdfast.cli.render.sanitize import plain
from holdfast.cli.waiting import Verdict, refuse_bad, say, wait
from holdfast.client.identity import identity
from holdfast.client.job_request import Proposal, propose
from holdfast.client.restore import Restoration, restoration
from holdfast.client.retry import act
from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.client.upload import ensure, storage_of, upload
from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.records import submission
from holdfast.zk.records.cluster_view import observe
from holdfast.zk.records.job_reader import Job, read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client


@click.command()
@target_options
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", help="What it is called. Default: after the script.")
@click.option(
    "--restart",
    "restart_strategy",
    metavar="STRATEGY",
    default="exponential",
    show_default=True,
    help="When it failed: never, exponential, fixed:N:DELAY or rate:N:PERIOD:DELAY.",
)
@click.option("--slots", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many slots it takes.")
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark. Repeatable.")
@click.option(
    "--py-files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="What it imports: .py or .zip. Repeatable.",
)
@click.option("--restore", metavar="JOB|SAVEPOINT", help="Go on from a savepoint, or where a job has stopped or ended.")
@click.option("--instead-of", metavar="JOB", multiple=True, help="Stop and cancel this job first. Repeatable.")
@click.option("--request-id", metavar="ID", help="The same id again is the same job: for scripts that repeat themselves.")
@click.option("--wait", "waits", is_flag=True, help="Until its first batch is done, or it has ended.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def submit(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    script: Path,
    arguments: tuple[str, ...],
    name: str | None,
    restart_strategy: str,
    slots: int,
    conf: tuple[str, ...],
    py_files: tuple[Path, ...],
    restore: str | None,
    instead_of: tuple[str, ...],
    request_id: str | None,
    waits: bool,
    as_json: bool,
) -> None:
    """Submit a PySpark program, or a declarative pipeline (.yml). From then on the cluster keeps it running."""
    proposal = propose(
        script,
        name=name,
        restart_strategy=restart_strategy,
        slots=slots,
        arguments=arguments,
        conf=conf,
        py_files=py_files,
    )
    target = find(directory, connect, cluster_name)
    begins_with = restoration(target, restore, instead_of)
    job, led = _submit(target, proposal, request_id or f"r{secrets.token_hex(8)}", begins_with)
    verdict = Verdict.GOOD
    if not as_json:
        click.echo(f"{plain(job.id)} {plain(proposal.name)}")
    if not led:
        say(f"{job.phase or Phase.PENDING}: no node leads at the moment; it is started once one does")
    if waits:
        job, verdict = wait(target, job, _first_batch)
    if as_json:
        click.echo(json.dumps(job_as_json(job), indent=2))
    refuse_bad(job, verdict)


def _submit(target: Target, proposal: Proposal, request: str, begins_with: Restoration | None) -> tuple[Job, bool]:
    """The code first, then the record that names it, then once more the code: a sweeper may have come between."""
    storage = storage_of(target)
    blobs = upload(storage, proposal.files)
    ancestors = begins_with.ancestors if begins_with is not None else ()
    spec = replace(proposal.spec(blobs), by=identity(), ancestors=ancestors)
    fresh = JobId(f"j{secrets.token_hex(6)}")
    if begins_with is not None and not _was_carried_out(target, spec, request):
        begins_with.prepare(fresh)

    async def action(client: Client) -> tuple[Job, bool]:
        id = await submission.submit(client, target.paths, spec, job=fresh, request=request)
        return await _seen(client, target.paths, id, spec)

    try:
        job, led = act(target, action)
    except OutcomeUnknown:
        raise
    except HoldfastError:
        if begins_with is not None:
            begins_with.abandon(fresh)
        raise
    if job.id != fresh:
        say(f"request '{request}' was carried out before")
    ensure(storage, blobs)
    return job, led


def _was_carried_out(target: Target, spec: Spec, request: str) -> bool:
    """Then nothing must be stopped or copied once more."""
    return read(target, lambda client: submission.known(client, target.paths, spec, request)) is not None


async def _seen(client: Client, paths: Paths, id: JobId, spec: Spec) -> tuple[Job, bool]:
    """How it stands now, and whether anybody leads. It is submitted, even if nobody answers that any more."""
    try:
        job = await read_job(client, paths, id)
        led = (await observe(client, paths)).leader is not None
    except HoldfastError:
        job, led = None, True
    state = State(Phase.PENDING, "submitted; no leader has looked at it yet")
    return job or Job(id, spec.name, None, spec=spec, wanted=Wanted(Desired.RUN), state=state), led


def _first_batch(job: Job) -> Verdict | None:
    if job.phase is Phase.RUNNING and job.lease is not None and job.progress.batch_id is not None:
        return Verdict.GOOD
    if job.phase is Phase.FINISHED:
        return Verdict.GOOD
    return Verdict.BAD if job.ended or job.phase in (Phase.PARKED, Phase.QUARANTINED) else None
