"""Print the table of jobs."""

import math
import time
from collections import Counter
from collections.abc import Sequence

import click

from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.table import UNKNOWN, TableColumn, format_table, phase_cell, screen_width, style_text
from holdfast.client.jobs.job_reason import describe_last_failure, describe_reason
from holdfast.client.timestamps import age
from holdfast.model.phase import Phase
from holdfast.zk.records.stored_job import StoredJob


def print_jobs(jobs: Sequence[StoredJob]) -> None:
    if not jobs:
        click.echo("no jobs")
        return
    now, width = time.time(), screen_width()
    lines = format_table(
        [
            TableColumn(
                "name", [sanitize(job.name) if job.name is not None else UNKNOWN for job in jobs], width_max=width // 4
            ),
            TableColumn("id", [sanitize(job.id) for job in jobs], rank=3, width_max=width // 5),
            TableColumn("phase", [phase_cell(job.phase) for job in jobs]),
            TableColumn("since", [age(job.changed_at, now) for job in jobs], right=True),
            TableColumn("node", [sanitize(job.node) if job.node is not None else "" for job in jobs], width_max=width // 6),
            TableColumn("attempt", [str(job.attempt or "") for job in jobs], right=True, rank=2),
            TableColumn("restarts", [str(job.restarts or "") for job in jobs], right=True, rank=5),
            TableColumn("batch", [format_number(job.progress.batch_id) for job in jobs], right=True, rank=1),
            TableColumn("rows/s", [format_number(job.progress.rows_per_second) for job in jobs], right=True, rank=4),
            TableColumn("age", [age(_submitted_at(job), now) for job in jobs], right=True, rank=6),
        ],
        TableColumn("reason", [_remark(job, now) for job in jobs]),
        width,
    )
    click.echo("\n".join(lines))
    if len(jobs) > 1:
        counts = Counter(job.phase or UNKNOWN for job in jobs)
        by_phase = ", ".join(f"{count} {phase}" for phase, count in counts.most_common())
        click.echo(style_text(f"{len(jobs)} jobs: {by_phase}", "dim"))


def _remark(job: StoredJob, now: float) -> str:
    """Return the reason; for a running job only the note of its runner and a recent failure."""
    if job.phase is Phase.RUNNING and job.lease is not None and not job.defects:
        return sanitize("; ".join(filter(None, (job.lease.note, describe_last_failure(job, now)))))
    return sanitize(describe_reason(job, now))


def _submitted_at(job: StoredJob) -> float | None:
    return job.submitted_ms / 1000 if job.submitted_ms is not None else None


def format_number(value: float | None) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f}" if isinstance(value, float) and abs(value) < 10 else f"{value:,.0f}"
