"""`holdfast logs`: print the output of a job."""

import sys
from pathlib import Path

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.options import connect_cluster, target_options


@click.command()
@target_options
@job_argument()
@click.option("-f", "--follow", is_flag=True, help="Keep printing new output, also of later attempts, until the job ends.")
@click.option("--attempt", type=click.IntRange(1), help="Number of the attempt (default: the last one).")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Print only the last lines.")
def logs(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    follow: bool,
    attempt: int | None,
    tail: int | None,
) -> None:
    """Print the output of a job. It is read from the node that runs or ran the attempt."""
    cluster = connect_cluster(directory, connect, cluster_name)
    for output in cluster.log_output(job, follow=follow, attempt=attempt, tail=tail):
        sys.stdout.buffer.write(output.data)
        sys.stdout.buffer.flush()
