"""`holdfast quarantine`: the jobs that were set aside, and what becomes of them."""

import base64
import binascii
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import UNKNOWN, Column, console, is_terminal, print_hanging, print_table
from holdfast.cli.render.times import age, iso, stamp
from holdfast.client.retry import act
from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.errors import Refused
from holdfast.zk.records import quarantine as transactions
from holdfast.zk.records.job_reader import Job, find_job, read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.quarantine import SetAside, read_quarantine, read_set_aside
from holdfast.zk.session.client import Client

ORIGINAL_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Case:
    """A job in quarantine, and what is known about it."""

    aside: SetAside
    job: Job | None

    @property
    def name(self) -> str:
        return plain(self.job.name) if self.job is not None and self.job.name is not None else UNKNOWN

    @property
    def reason(self) -> str:
        record = self.aside.record
        return plain(record.reason if record is not None else self.aside.problem)

    @property
    def since(self) -> float | None:
        return self.aside.record.wall if self.aside.record is not None else None

    @property
    def original(self) -> bytes:
        try:
            return base64.b64decode(self.aside.record.original if self.aside.record is not None else "")
        except (binascii.Error, ValueError):
            return b""


@click.group(invoke_without_command=True)
@target_options
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.pass_context
def quarantine(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool
) -> None:
    """Look after jobs that cannot be read. List them, look at them, release or discard them."""
    if context.invoked_subcommand is None:
        _list(find(directory, connect, cluster_name), as_json=as_json)
    elif as_json:
        raise click.UsageError(f"say --json after '{context.invoked_subcommand}'", context)


def _find(context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None) -> Target:
    """The target may be named before the subcommand, or after it."""
    before = context.parent.params if context.parent is not None else {}
    return find(
        directory or before.get("directory"), connect or before.get("connect"), cluster_name or before.get("cluster_name")
    )


@quarantine.command()
@target_options
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.pass_context
def ls(context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool) -> None:
    """List the jobs in quarantine, and why they are there."""
    _list(_find(context, directory, connect, cluster_name), as_json=as_json)


def _list(target: Target, *, as_json: bool) -> None:
    cases = read(target, lambda client: _cases(client, target.paths))
    if as_json:
        click.echo(json.dumps([_as_json(case) for case in cases], indent=2))
        return
    screen = console()
    if not cases:
        screen.print("nothing is in quarantine")
        return
    now = time.time()
    print_table(
        screen,
        [
            Column("name", [case.name for case in cases], width_max=screen.width // 4),
            Column("id", [plain(case.aside.job) for case in cases]),
            Column("since", [age(case.since, now) for case in cases], right=True, rank=1),
        ],
        Column("reason", [case.reason for case in cases]),
    )


async def _cases(client: Client, paths: Paths) -> list[Case]:
    return [Case(aside, await read_job(client, paths, aside.job)) for aside in await read_quarantine(client, paths)]


def _as_json(case: Case) -> dict[str, Any]:
    record = case.aside.record
    return {
        "id": case.aside.job,
        "name": case.job.name if case.job is not None else None,
        "reason": record.reason if record is not None else case.aside.problem,
        "part": record.part if record is not None else None,
        "since": iso(case.since),
        "original": record.original if record is not None else None,
    }


@quarantine.command()
@target_options
@job_argument()
@click.option("--original", is_flag=True, help="Only the bytes that could not be read, as they were.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
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
    """Show why a job is in quarantine, what could not be read, and what can be done."""
    target = _find(context, directory, connect, cluster_name)
    case = read(target, lambda client: _case(client, target.paths, job))
    if original:
        sys.stdout.buffer.write(case.original)
    elif as_json:
        click.echo(json.dumps(_as_json(case), indent=2))
    else:
        _print(case, target.paths)


async def _case(client: Client, paths: Paths, text: str) -> Case:
    """By the id alone too: a job may have lost everything but its record in quarantine."""
    for aside in await read_quarantine(client, paths):
        if aside.job == text:
            return Case(aside, await read_job(client, paths, aside.job))
    job = await find_job(client, paths, text)
    aside_record = await read_set_aside(client, paths, job.id)
    if aside_record is None:
        raise Refused(f"{job.label} is not in quarantine: {job.phase or UNKNOWN}: {job.reason}")
    return Case(aside_record, job)


def _print(case: Case, paths: Paths) -> None:
    screen, record, now = console(), case.aside.record, time.time()
    id = plain(case.aside.job)
    screen.print(Text.assemble((f"{case.name} ({id})", "bold"), " is in quarantine: ", case.reason))
    screen.print()
    facts = [("since", f"{stamp(case.since, now)} ({age(case.since, now)} ago)")]
    if case.job is not None:
        facts.append(("phase", case.job.phase or UNKNOWN))
        facts += [("now", defect) for defect in case.job.defects]
    if record is not None and record.part:
        shown = repr(case.original[:ORIGINAL_SHOWN])[1:] + ("…" if len(case.original) > ORIGINAL_SHOWN else "")
        facts += [("unreadable", paths.job(case.aside.job, record.part)), ("original", f"{len(case.original)} bytes: {shown}")]
    for key, text in facts:
        print_hanging(screen, Text.assemble((f"  {key:<12}", "dim")), plain(text))
    screen.print()
    for word, effect in (
        ("release", "lets it run again, once every part can be read"),
        ("discard", "deletes its record; its checkpoint stays in the storage"),
    ):
        print_hanging(screen, Text(f"holdfast quarantine {word} {id}  "), effect)


@quarantine.command()
@target_options
@job_argument()
@click.option("--force", is_flag=True, help="Even if nobody can tell what was wanted of it: it was surely not cancelled.")
@click.pass_context
def release(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, job: str, force: bool
) -> None:
    """Let a job run again whose parts can all be read again."""
    target = _find(context, directory, connect, cluster_name)
    case = read(target, lambda client: _case(client, target.paths, job))
    act(target, lambda client: transactions.release(client, target.paths, case.aside.job, force=force), repeatable=False)
    click.echo(f"{case.name} ({plain(case.aside.job)}) is released, and is started as soon as there is room")


@quarantine.command()
@target_options
@job_argument()
@click.option("--yes", is_flag=True, help="Without asking.")
@click.pass_context
def discard(
    context: click.Context, directory: Path | None, connect: str | None, cluster_name: str | None, job: str, yes: bool
) -> None:
    """Delete a job in quarantine, its name and its request. What it left in the storage stays."""
    target = _find(context, directory, connect, cluster_name)
    case = read(target, lambda client: _case(client, target.paths, job))
    label = f"{case.name} ({plain(case.aside.job)})"
    if not yes:
        if not is_terminal(sys.stdin):
            raise Refused(f"discarding {label} deletes its record for good: say --yes")
        click.echo(f"{label}: {case.reason}")
        click.confirm("Delete its record for good?", abort=True)
    act(target, lambda client: transactions.discard(client, target.paths, case.aside.job), repeatable=False)
    click.echo(f"{label} is discarded; what it left in the storage stays")
