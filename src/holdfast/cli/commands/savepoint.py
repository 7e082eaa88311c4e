"""`holdfast savepoint`: copies of a job's checkpoint that other jobs can start from."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from holdfast.cli.commands.completion import complete_job
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import console, is_terminal
from holdfast.cli.render.times import age, iso
from holdfast.client.identity import identity
from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.client.upload import storage_location
from holdfast.errors import Refused
from holdfast.savepoint import Manifest, Savepoints, Source
from holdfast.savepoint.savepoint_store import Begin
from holdfast.zk.records.job_reader import Job, find_job

WORDS = ("ls", "rm")
WITH_VALUE = ("--dir", "--connect", "--cluster", "--keep")


class _JobOrWord(click.Group):
    """`savepoint JOB` makes one; `ls` and `rm` are about those that there are. A job of that name is reached by its id."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next(_positions(args), None)
        if first is not None and args[first] in WORDS:
            args = [args[first], *args[:first], *args[first + 1 :]]
        elif args and args[0] not in ("-h", "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


def _positions(args: list[str]) -> Iterator[int]:
    """Of what is neither an option nor its value."""
    follows_option = False
    for position, arg in enumerate(args):
        if not arg.startswith("-") and not follows_option:
            yield position
        follows_option = arg in WITH_VALUE


@click.group(cls=_JobOrWord)
def savepoint() -> None:
    """Keep a copy of a job's checkpoint: 'savepoint JOB'. A running job is not paused for it.

    'savepoint ls' lists them, 'savepoint rm ID' removes one, and 'submit --restore ID' starts a new job from one.
    """


@savepoint.command(hidden=True)
@target_options
@click.argument("job", shell_complete=complete_job)
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Afterwards remove all of this job but the newest N.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def make(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str, keep: int | None, as_json: bool
) -> None:
    """Make a savepoint of a job."""
    target = find(directory, connect, cluster_name)
    found = read(target, lambda client: find_job(client, target.paths, job))
    made = make_savepoint(target, found)
    if keep is not None:
        _forget_all_but(target, made.job, keep)
    tell_made(made, as_json=as_json)


def make_savepoint(target: Target, job: Job) -> Manifest:
    with copying(f"copying the checkpoint of {plain(job.label)}") as begin:
        return Savepoints(storage_location(target)).make(source_of(job), by=identity(), begin=begin)


def source_of(job: Job) -> Source:
    spec = job.spec
    return Source(
        job=job.id,
        name=job.label,
        version=job.state.versions.current if job.state is not None else 1,
        ancestors=spec.ancestors if spec is not None else (),
        running=job.lease is not None,
    )


def tell_made(made: Manifest, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_as_json(made), indent=2))
        return
    paused = "the job was not paused" if made.running else "the job did not run"
    click.echo(f"{made.id}: {_extent(made)}, in {made.took_s:.1f} s; {paused}")


def _forget_all_but(target: Target, job: str, keep: int) -> None:
    savepoints = Savepoints(storage_location(target))
    for old in [manifest for manifest in savepoints.all() if manifest.job == job][:-keep]:
        savepoints.remove(old.id)
        click.echo(f"{old.id} of {age(old.made_wall_s, time.time())} ago was removed", err=True)


@savepoint.command("ls")
@target_options
@click.argument("job", required=False, shell_complete=complete_job)
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_savepoints(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str | None, as_json: bool
) -> None:
    """List them, the oldest first; with JOB, only its own."""
    target = find(directory, connect, cluster_name)
    manifests = [manifest for manifest in Savepoints(storage_location(target)).all() if job in (None, *_called(manifest))]
    if as_json:
        click.echo(json.dumps([_as_json(manifest) for manifest in manifests], indent=2))
    elif not manifests:
        click.echo("there are no savepoints" + (f" of '{plain(job)}'" if job is not None else ""))
    else:
        _print(manifests)


@savepoint.command()
@target_options
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def rm(directory: Path | None, connect: str | None, cluster_name: str | None, ids: tuple[str, ...]) -> None:
    """Remove savepoints. Jobs that were started from them have copies of their own."""
    savepoints = Savepoints(storage_location(find(directory, connect, cluster_name)))
    for id in ids:
        savepoints.find(id)
    for id in ids:
        savepoints.remove(id)
        click.echo(f"{id} was removed")


def _called(manifest: Manifest) -> tuple[str, ...]:
    """What a person may call its job: its label is its name and its id in brackets."""
    return manifest.job, manifest.name, manifest.name.partition(" ")[0]


def _as_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "job": manifest.job,
        "name": manifest.name.partition(" ")[0],
        "version": manifest.version,
        "made_at": iso(manifest.made_wall_s),
        "by": manifest.by,
        "took_s": manifest.took_s,
        "running": manifest.running,
        "batches": manifest.batches,
        "files": len(manifest.files),
        "bytes": manifest.size,
    }


def _extent(manifest: Manifest) -> str:
    batches = ", ".join(f"{query.strip('/') or 'the query'} up to batch {last:,}" for query, last in manifest.batches.items())
    return f"{batches}; {len(manifest.files):,} files, {manifest.size / 1e6:,.1f} MB"


def _print(manifests: list[Manifest]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("SAVEPOINT", "JOB", "AGE", "BY", "WHAT"):
        table.add_column(column)
    now = time.time()
    for each in manifests:
        table.add_row(each.id, plain(each.name), age(each.made_wall_s, now), plain(each.by), _extent(each))
    console().print(table)


@contextmanager
def copying(what: str) -> Iterator[Begin]:
    """With a bar, if somebody is looking."""
    if not is_terminal(sys.stderr):
        yield lambda _bytes: lambda _more: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def begin(total: int) -> Any:
            progress.reset(task, total=total)
            return lambda more: progress.advance(task, more)

        yield begin


def refuse_live(job: Job) -> None:
    if job.lease is not None or (job.state is not None and job.state.phase.occupies_slots):
        raise Refused(
            f"{job.label} runs: make a savepoint of it ('holdfast savepoint {job.id}') and restore that, or say "
            f"--instead-of {job.id}, so that it ends first"
        )
