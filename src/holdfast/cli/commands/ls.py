"""`holdfast ls`: which jobs there are and how they stand."""

import json
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import UNKNOWN, Column, console, phase_text, print_table
from holdfast.cli.render.times import age, iso
from holdfast.client.session import read
from holdfast.client.target import find, target_options
from holdfast.model.phase import Phase
from holdfast.zk.records.cluster_view import observe
from holdfast.zk.records.job_reader import Job, read_jobs
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

NO_LEADER = "no node leads at the moment, so nothing is decided about any job"


@click.command()
@target_options
@click.option("--all", "ended", is_flag=True, help="Those that ended, too.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def ls(directory: Path | None, connect: str | None, cluster_name: str | None, ended: bool, as_json: bool) -> None:
    """List the jobs, and why those that do not run do not."""
    target = find(directory, connect, cluster_name)
    jobs, leader = read(target, lambda client: _look(client, target.paths, ended=ended))
    jobs.sort(key=_order)
    if as_json:
        click.echo(json.dumps([job_as_json(job) for job in jobs], indent=2))
    else:
        _print(jobs, ended=ended)
        if leader is None:
            click.echo(f"holdfast: {NO_LEADER}", err=True)


async def _look(client: Client, paths: Paths, *, ended: bool) -> tuple[list[Job], str | None]:
    view = await observe(client, paths)
    return await read_jobs(client, paths, ended=ended), view.leader


def _order(job: Job) -> tuple[bool, float, str, str]:
    """Live ones by name, then the others, the last submitted first."""
    return (job.ended, -(job.submitted_ms or 0) if job.ended else 0, job.name or UNKNOWN, job.id)


def job_as_json(job: Job) -> dict[str, Any]:
    """Scripts rely on these keys."""
    progress = job.progress
    return {
        "id": job.id,
        "name": job.name,
        "phase": job.phase or UNKNOWN,
        "reason": job.reason,
        "attempt": job.attempt,
        "restarts": job.restarts,
        "node": job.node,
        "driver_pid": job.lease.driver_pid if job.lease is not None else None,
        "progress": {
            "batch_id": progress.batch_id,
            "rows_per_second": _finite(progress.rows_per_second),
            "offsets": [_offset(text) for text in progress.offsets],
            "lag": [_offset(text) for text in progress.lag],
        },
        "submitted_at": iso(job.submitted_ms / 1000 if job.submitted_ms is not None else None),
        "desired": job.wanted.desired if job.wanted is not None else None,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no word for the others."""
    return value if value is not None and math.isfinite(value) else None


def _offset(text: str) -> Any:
    """As Spark wrote it, if that was JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _print(jobs: list[Job], *, ended: bool) -> None:
    screen = console()
    if not jobs:
        screen.print("no jobs" if ended else "no live jobs; --all lists those that ended")
        return
    now = time.time()
    print_table(
        screen,
        [
            Column("name", [plain(job.name) if job.name is not None else UNKNOWN for job in jobs], width_max=screen.width // 4),
            Column("id", [plain(job.id) for job in jobs], rank=3, width_max=screen.width // 5),
            Column("phase", [phase_text(job.phase) for job in jobs]),
            Column("since", [age(job.since, now) for job in jobs], right=True),
            Column("node", [plain(job.node) if job.node is not None else "" for job in jobs], width_max=screen.width // 6),
            Column("attempt", [str(job.attempt or "") for job in jobs], right=True, rank=2),
            Column("restarts", [str(job.restarts or "") for job in jobs], right=True, rank=5),
            Column("batch", [number(job.progress.batch_id) for job in jobs], right=True, rank=1),
            Column("rows/s", [number(job.progress.rows_per_second) for job in jobs], right=True, rank=4),
            Column("age", [age(_submitted(job), now) for job in jobs], right=True, rank=6),
        ],
        Column("reason", [_reason(job) for job in jobs]),
    )
    if len(jobs) > 1:
        counts = Counter(job.phase or UNKNOWN for job in jobs)
        screen.print(
            f"{len(jobs)} jobs: " + ", ".join(f"{count} {phase}" for phase, count in counts.most_common()), style="dim"
        )


def _reason(job: Job) -> str:
    """That a job runs as it should needs no words."""
    well = job.phase is Phase.RUNNING and job.lease is not None and not job.defects
    if well:
        return plain(job.lease.note) if job.lease is not None else ""
    return plain(job.reason)


def _submitted(job: Job) -> float | None:
    return job.submitted_ms / 1000 if job.submitted_ms is not None else None


def number(value: float | None) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f}" if isinstance(value, float) and abs(value) < 10 else f"{value:,.0f}"
