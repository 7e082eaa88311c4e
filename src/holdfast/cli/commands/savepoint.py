"""`holdfast savepoint`: make, list and remove copies of a job's checkpoint."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.commands.completion import complete_job
from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json
from holdfast.cli.render.sanitize import sanitize
from holdfast.client.timestamps import age, iso
from holdfast.model.plural import format_count

if TYPE_CHECKING:
    from holdfast.client import Savepoint

SUBCOMMANDS = ("ls", "rm")
OPTIONS_WITH_VALUE = ("--dir", "--connect", "--cluster", "--keep")


class _SavepointGroup(click.Group):
    """Group with the default subcommand `make`, for `savepoint JOB`. A job named `ls` or `rm` is reached by its id."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next(_argument_positions(args), None)
        if first is not None and args[first] in SUBCOMMANDS:
            args = [args[first], *args[:first], *args[first + 1 :]]
        elif args and args[0] not in ("-h", "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


def _argument_positions(args: list[str]) -> Iterator[int]:
    """Yield the positions of arguments that are neither options nor values of options."""
    follows_option = False
    for position, arg in enumerate(args):
        if not arg.startswith("-") and not follows_option:
            yield position
        follows_option = arg in OPTIONS_WITH_VALUE


@click.group(cls=_SavepointGroup)
def savepoint() -> None:
    """Copy a job's checkpoint: 'savepoint JOB'. A running job is not paused.

    'savepoint ls' lists savepoints, 'savepoint rm ID' removes one, and 'submit --restore ID' starts a new job from one.
    """


@savepoint.command(hidden=True)
@target_options
@click.argument("job", shell_complete=complete_job)
@click.option(
    "--keep", type=click.IntRange(1), metavar="N", help="Afterwards remove all savepoints of this job except the newest N."
)
@json_option
def make(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str, keep: int | None, as_json: bool
) -> None:
    """Make a savepoint of a job."""
    cluster = connect_cluster(directory, connect, cluster_name)
    made = cluster.savepoint(job)
    if keep is not None:
        for old in cluster.prune_savepoints(made.job, keep=keep):
            click.echo(f"removed savepoint {old.id}, made {age(old.made_wall_s, time.time())} ago", err=True)
    if as_json:
        print_json(_as_json(made))
    else:
        click.echo(describe_savepoint(made))


def describe_savepoint(made: "Savepoint") -> str:
    paused = "the job was not paused" if made.running else "the job was not running"
    return f"{made.id}: {_summary(made)}, in {made.took_s:.1f} s; {paused}"


@savepoint.command("ls")
@target_options
@click.argument("job", metavar="[JOB]", required=False, shell_complete=complete_job)
@json_option
def list_savepoints(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str | None, as_json: bool
) -> None:
    """List savepoints, the oldest first; with JOB, only the savepoints of this job."""
    manifests = connect_cluster(directory, connect, cluster_name).savepoints(job)
    if as_json:
        print_json([_as_json(manifest) for manifest in manifests])
    elif not manifests:
        click.echo("no savepoints" + (f" of '{sanitize(job)}'" if job is not None else ""))
    else:
        _print(manifests)


@savepoint.command()
@target_options
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def rm(directory: Path | None, connect: str | None, cluster_name: str | None, ids: tuple[str, ...]) -> None:
    """Remove savepoints. Jobs that were started from them are not affected: they have their own copies."""
    connect_cluster(directory, connect, cluster_name).remove_savepoint(*ids)
    for id in ids:
        click.echo(f"removed savepoint {id}")


def _as_json(manifest: "Savepoint") -> dict[str, Any]:
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


def _summary(manifest: "Savepoint") -> str:
    batches = ", ".join(f"{query.strip('/') or 'the query'} up to batch {last:,}" for query, last in manifest.batches.items())
    return f"{batches}; {format_count(len(manifest.files), 'file')}, {manifest.size / 1e6:,.1f} MB"


def _print(manifests: "list[Savepoint]") -> None:
    from rich.table import Table

    from holdfast.cli.render.terminal import console

    table = Table(box=None, pad_edge=False)
    for column in ("savepoint", "job", "age", "by", "contents"):
        table.add_column(column)
    now = time.time()
    for each in manifests:
        table.add_row(each.id, sanitize(each.name), age(each.made_wall_s, now), sanitize(each.by), _summary(each))
    console().print(table)
