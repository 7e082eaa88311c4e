"""`holdfast quarantine`: list, show, release and discard jobs that cannot be read."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json
from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.table import UNKNOWN, TableColumn, format_table, is_terminal, screen_width
from holdfast.cli.render.terminal import console, print_hanging
from holdfast.client import Cluster
from holdfast.client.timestamps import age, iso, stamp
from holdfast.errors import Refused
from holdfast.zk.records.paths import Paths

if TYPE_CHECKING:
    from holdfast.client import QuarantinedJob

ORIGINAL_SHOWN = 400


@click.group(invoke_without_command=True)
@target_options
@json_option
@click.pass_context
def quarantine(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool
) -> None:
    """List, release or discard jobs whose records cannot be read. Without a subcommand, list them."""
    if context.invoked_subcommand is None:
        _list(connect_cluster(directory, connect, cluster_name), as_json=as_json)
    elif as_json:
        raise click.UsageError(f"put --json after '{context.invoked_subcommand}'", context)


def _connect(context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None) -> Cluster:
    """Return the cluster, whose options may come before or after the subcommand."""
    before = context.parent.params if context.parent is not None else {}
    return connect_cluster(
        directory or before.get("directory"), connect or before.get("connect"), cluster_name or before.get("cluster_name")
    )


def _name(quarantined: "QuarantinedJob") -> str:
    return sanitize(quarantined.name) if quarantined.name is not None else UNKNOWN


@quarantine.command()
@target_options
@json_option
@click.pass_context
def ls(context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool) -> None:
    """List the jobs in quarantine, with the reason for each."""
    _list(_connect(context, directory, connect, cluster_name), as_json=as_json)


def _list(cluster: Cluster, *, as_json: bool) -> None:
    quarantined_jobs = cluster.quarantine()
    if as_json:
        print_json([_as_json(quarantined) for quarantined in quarantined_jobs])
        return
    if not quarantined_jobs:
        click.echo("no jobs in quarantine")
        return
    now, width = time.time(), screen_width()
    lines = format_table(
        [
            TableColumn("name", [_name(quarantined) for quarantined in quarantined_jobs], width_max=width // 4),
            TableColumn("id", [sanitize(quarantined.id) for quarantined in quarantined_jobs]),
            TableColumn("since", [age(quarantined.since, now) for quarantined in quarantined_jobs], right=True, rank=1),
        ],
        TableColumn("reason", [sanitize(quarantined.reason) for quarantined in quarantined_jobs]),
        width,
    )
    click.echo("\n".join(lines))


def _as_json(quarantined: "QuarantinedJob") -> dict[str, Any]:
    record = quarantined.entry.record
    return {
        "id": quarantined.id,
        "name": quarantined.job.name if quarantined.job is not None else None,
        "reason": record.reason if record is not None else quarantined.entry.problem,
        "part": record.part if record is not None else None,
        "since": iso(quarantined.since),
        "original": record.original if record is not None else None,
    }


@quarantine.command()
@target_options
@job_argument()
@click.option("--original", is_flag=True, help="Print only the unreadable bytes, unchanged.")
@json_option
@click.pass_context
def show(
    context: click.Context,
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    original: bool,
    as_json: bool,
) -> None:
    """Show why a job is in quarantine, which bytes are unreadable, and what to do."""
    cluster = _connect(context, directory, connect, cluster_name)
    quarantined = cluster.quarantined_job(job)
    if original:
        sys.stdout.buffer.write(quarantined.original)
    elif as_json:
        print_json(_as_json(quarantined))
    else:
        _print(quarantined, cluster.target.paths)


def _print(quarantined: "QuarantinedJob", paths: Paths) -> None:
    screen, record, now = console(), quarantined.entry.record, time.time()
    id = sanitize(quarantined.id)
    screen.print(Text.assemble((f"{_name(quarantined)} ({id})", "bold"), " is in quarantine: ", sanitize(quarantined.reason)))
    screen.print()
    facts = [("since", f"{stamp(quarantined.since, now)} ({age(quarantined.since, now)} ago)")]
    if quarantined.job is not None:
        facts.append(("phase", quarantined.job.phase or UNKNOWN))
        facts += [("now", defect) for defect in quarantined.job.defects]
    if record is not None and record.part:
        shown = repr(quarantined.original[:ORIGINAL_SHOWN])[1:] + ("…" if len(quarantined.original) > ORIGINAL_SHOWN else "")
        facts += [
            ("unreadable", paths.job(quarantined.id, record.part)),
            ("original", f"{len(quarantined.original)} bytes: {shown}"),
        ]
    for key, text in facts:
        print_hanging(screen, Text.assemble((f"  {key:<12}", "dim")), sanitize(text))
    screen.print()
    for word, effect in (
        ("release", "lets the job run again, once all its records are readable"),
        ("discard", "deletes the job's records; its checkpoint stays in the storage"),
    ):
        print_hanging(screen, Text(f"holdfast quarantine {word} {id}  "), effect)


@quarantine.command()
@target_options
@job_argument()
@click.option("--force", is_flag=True, help="Release it even if a request to cancel it may have been lost.")
@click.pass_context
def release(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, job: str, force: bool
) -> None:
    """Let a job run again after all its records have become readable."""
    cluster = _connect(context, directory, connect, cluster_name)
    quarantined = cluster.quarantined_job(job)
    cluster.release(quarantined, force=force)
    click.echo(f"{_name(quarantined)} ({sanitize(quarantined.id)}) is released; it starts as soon as a node has free slots")


@quarantine.command()
@target_options
@job_argument()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def discard(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, job: str, yes: bool
) -> None:
    """Delete the records of a job in quarantine and free its name. Its checkpoint stays in the storage."""
    cluster = _connect(context, directory, connect, cluster_name)
    quarantined = cluster.quarantined_job(job)
    label = f"{_name(quarantined)} ({sanitize(quarantined.id)})"
    if not yes:
        if not is_terminal(sys.stdin):
            raise Refused(
                f"discarding {label} deletes its records permanently, and there is no terminal to confirm it: use --yes"
            )
        click.echo(f"{label}: {sanitize(quarantined.reason)}")
        click.confirm("delete its records permanently?", abort=True)
    cluster.discard(quarantined)
    click.echo(f"{label} is discarded; its checkpoint stays in the storage")
