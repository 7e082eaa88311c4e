"""`holdfast ls`: list jobs."""

from pathlib import Path

import click

from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json

NO_LEADER = "no node leads at the moment: jobs that run keep running, but none is started, stopped or moved until a node leads"


@click.command()
@target_options
@click.option("--all", "ended", is_flag=True, help="List ended jobs too.")
@json_option
def ls(directory: Path | None, connect: str | None, cluster_name: str | None, ended: bool, as_json: bool) -> None:
    """List jobs, with the reason for each one that is not running. Ended jobs are listed with --all."""
    found = connect_cluster(directory, connect, cluster_name).list_jobs(ended=ended)
    if as_json:
        from holdfast.client.jobs.job_json import job_as_json

        print_json([job_as_json(job) for job in found.jobs])
        return
    from holdfast.cli.render.job_table import print_jobs
    from holdfast.model.plural import format_count

    print_jobs(found.jobs)
    if found.hidden:
        is_one = found.hidden == 1
        click.echo(
            f"{format_count(found.hidden, 'ended job')} {'is' if is_one else 'are'} not listed; "
            f"'holdfast ls --all' lists {'it' if is_one else 'them'}",
            err=True,
        )
    if found.leader is None:
        click.echo(f"holdfast: {NO_LEADER}", err=True)
