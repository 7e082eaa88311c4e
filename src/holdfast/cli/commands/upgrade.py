"""`holdfast upgrade`: another version of a job's program, from the same checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.commands.job_control import refuse_unsteerable
from holdfast.cli.render.sanitize import plain
from holdfast.cli.waiting import Verdict, refuse_bad, wait
from holdfast.client.identity import identity
from holdfast.client.job_request import Proposal, propose
from holdfast.client.retry import act
from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.client.upload import ensure, storage_of, upload
from holdfast.errors import Refused
from holdfast.model.duration import parse_duration
from holdfast.model.job import Desired, Spec, State
from holdfast.model.phase import Phase
from holdfast.zk.records.job_reader import Job, find_job
from holdfast.zk.records.upgrade import upgrade as write_version
from holdfast.zk.session.client import Client


@click.command()
@target_options
@job_argument()
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--restart", "restart_strategy", metavar="STRATEGY", help="When it failed. Default: as before.")
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark, in place of all before. Repeatable.")
@click.option(
    "--py-files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="What it imports, in place of all before. Repeatable.",
)
@click.option(
    "--within", metavar="DURATION", default="5m", show_default=True, help="For its first batch; then the last one comes back."
)
@click.option("--wait", "waits", is_flag=True, help="Until its first batch is done, or the version before is back.")
def upgrade(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    script: Path,
    arguments: tuple[str, ...],
    restart_strategy: str | None,
    conf: tuple[str, ...],
    py_files: tuple[Path, ...],
    within: str,
    waits: bool,
) -> None:
    """Give a job another program. It stops at a batch boundary, and the new one goes on from the same checkpoint.

    Arguments, settings and files that are not given stay as they are. If the new version does not come to its first batch
    in time, the version before is started again.
    """
    trial_s = parse_duration(within)
    target = find(directory, connect, cluster_name)
    found = read(target, lambda client: find_job(client, target.paths, job))
    refuse_unsteerable(found)
    proposal = propose(
        script,
        name=None,
        restart_strategy=restart_strategy or "exponential",
        slots=1,
        arguments=arguments,
        conf=conf,
        py_files=py_files,
    )

    def change(spec: Spec, blobs: Mapping[Path, str]) -> Spec:
        new = proposal.spec(blobs)
        return replace(
            spec,
            script=new.script,
            blob=new.blob,
            restart=restart_strategy or spec.restart,
            arguments=new.arguments or spec.arguments,
            conf=new.conf or spec.conf,
            py_files=new.py_files or spec.py_files,
            by=identity(),
        )

    version = change_to(target, found, proposal, change, trial_s=trial_s)
    if version is None:
        click.echo(f"{plain(found.label)} runs just that already")
        return
    click.echo(f"{plain(found.label)} {_what_happens(found, version)}")
    if waits and not (found.wanted is not None and found.wanted.desired is Desired.STOP):
        after, verdict = wait(target, found, _until_accepted(version))
        if verdict is Verdict.BAD and after.state is not None and after.state.versions.rejected == version:
            raise Refused(f"{after.label}: {_why_rejected(after.state, version)}")
        refuse_bad(after, verdict)


def change_to(
    target: Target,
    job: Job,
    proposal: Proposal,
    change: Callable[[Spec, Mapping[Path, str]], Spec],
    *,
    trial_s: float,
) -> int | None:
    """The code first, then the record that names it, then once more the code, as for a submission."""
    storage = storage_of(target)
    blobs = upload(storage, proposal.files)

    async def action(client: Client) -> int | None:
        return await write_version(client, target.paths, job.id, lambda spec: change(spec, blobs), trial_s=trial_s)

    version = act(target, action)
    ensure(storage, blobs)
    return version


def _what_happens(job: Job, version: int) -> str:
    if job.wanted is not None and job.wanted.desired is Desired.STOP:
        return f"is stopped: version {version} is what 'resume' starts"
    if job.lease is None:
        return f"was {job.phase} ({plain(job.reason)}), and is started with version {version} as soon as there is room"
    return f"runs on {job.lease.node}, and stops at its next batch boundary; then version {version} goes on from there"


def _why_rejected(state: State, version: int) -> str:
    """It stands in an event. The version before may be running again already."""
    told = (event.reason for event in reversed(state.events) if event.reason.startswith(f"version {version} "))
    return next(told, f"version {version} did not come to its first batch; version {state.versions.current} is back")


def _until_accepted(version: int) -> Callable[[Job], Verdict | None]:
    def judge(job: Job) -> Verdict | None:
        if job.ended or job.phase in (Phase.PARKED, Phase.QUARANTINED):
            return Verdict.GOOD if job.phase is Phase.FINISHED else Verdict.BAD
        if job.state is not None and job.state.versions.rejected == version:
            return Verdict.BAD
        runs = job.state is not None and job.state.versions.current == version and job.phase is Phase.RUNNING
        reached = job.lease is not None and job.lease.attempt == job.attempt and job.progress.batch_id is not None
        return Verdict.GOOD if runs and reached else None

    return judge
