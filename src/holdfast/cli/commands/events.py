"""`holdfast events`: what happened to jobs, in order."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import UNKNOWN, console, padded_phase, print_hanging
from holdfast.cli.render.times import iso, stamp
from holdfast.client.session import read
from holdfast.client.target import find, target_options
from holdfast.model.job import Event
from holdfast.zk.records.job_reader import Job, find_job, read_jobs
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

NAME_WIDTH_MAX = 24


@dataclass(frozen=True, slots=True)
class Happening:
    job: Job
    event: Event


@click.command()
@target_options
@job_argument(required=False)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many, the last ones.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def events(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str | None, limit: int, as_json: bool
) -> None:
    """Tell what happened, to one job or to all. Each job keeps its last changes."""
    target = find(directory, connect, cluster_name)
    happened = happenings(read(target, lambda client: _jobs(client, target.paths, job)))[-limit:]
    if as_json:
        click.echo(json.dumps([happening_as_json(happening) for happening in happened], indent=2))
    else:
        print_happenings(console(), happened, named=job is None)


async def _jobs(client: Client, paths: Paths, text: str | None) -> list[Job]:
    return await read_jobs(client, paths, ended=True) if text is None else [await find_job(client, paths, text)]


def happenings(jobs: list[Job]) -> list[Happening]:
    found = [Happening(job, event) for job in jobs if job.state is not None for event in job.state.events]
    return sorted(found, key=lambda each: (each.event.wall, each.job.id, each.event.number))


def happening_as_json(happening: Happening) -> dict[str, Any]:
    event = happening.event
    return {
        "time": iso(event.wall),
        "job": happening.job.id,
        "name": happening.job.name,
        "number": event.number,
        "phase": event.phase,
        "reason": event.reason,
        "attempt": event.attempt,
        "node": event.node,
        "epoch": event.epoch,
    }


def print_happenings(screen: Console, happened: list[Happening], *, named: bool) -> None:
    """One after the other, with the whole reason of each, however long that is."""
    if not happened:
        screen.print("nothing has happened yet")
        return
    now = time.time()
    times = [stamp(each.event.wall, now) for each in happened]
    names = [plain(each.job.name or UNKNOWN) for each in happened] if named else []
    time_width = max(map(len, times))
    name_width = min(max(map(len, names), default=0), NAME_WIDTH_MAX)
    for index, each in enumerate(happened):
        head = Text.assemble((f"{times[index]:>{time_width}}  ", "dim"))
        if named:
            name = Text(names[index])
            name.truncate(name_width, overflow="ellipsis", pad=True)
            head.append_text(name).append("  ")
        head.append_text(padded_phase(each.event.phase))
        print_hanging(screen, head, plain(each.event.reason))
