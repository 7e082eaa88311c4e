"""`holdfast events`: list what happened to jobs."""

from pathlib import Path

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json


@click.command()
@target_options
@job_argument(required=False)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Number of events; the newest are listed.")
@json_option
def events(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str | None, limit: int, as_json: bool
) -> None:
    """List what happened to one job, or to all jobs. The cluster keeps the last 20 events of each job."""
    found = connect_cluster(directory, connect, cluster_name).events(job)[-limit:]
    if as_json:
        from holdfast.client.jobs.job_json import event_as_json

        print_json([event_as_json(event) for event in found])
    else:
        from holdfast.cli.render.event_list import print_events
        from holdfast.cli.render.terminal import console

        print_events(console(), found, with_names=job is None)
