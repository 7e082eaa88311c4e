"""Print results as JSON on stdout, for scripts."""

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from holdfast.client import Job


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def print_job_json(job: "Job", **more: Any) -> None:
    """Print a job with the keys of `holdfast ls --json`, and further keys if there are any."""
    from holdfast.client.jobs.job_json import job_as_json

    print_json({**job_as_json(job), **more})
