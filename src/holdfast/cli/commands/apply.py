"""`holdfast apply`: make the jobs of a cluster equal to a directory of job files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json
from holdfast.cli.render.sanitize import sanitize
from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.client import Job, JobChange


@click.command()
@target_options
@click.argument("job_files", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show the changes.")
@click.option("--yes", is_flag=True, help="Make the changes without asking.")
@json_option
def apply(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job_files: Path,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the cluster's jobs equal to a directory of job files. The changes are shown and must be confirmed.

    Each file NAME.toml describes one job: script (relative to the file), arguments, restart, slots, py_files, and a table
    conf. A new job is submitted, a changed job is upgraded, and a live job without a file is cancelled.
    """
    from holdfast.client.deployment.apply import Action

    cluster = connect_cluster(directory, connect, cluster_name)
    changes = cluster.compare(job_files)
    for change in changes:
        click.echo(f"{change.action} {sanitize(change.name)}: {sanitize(change.description)}", err=as_json)
    due = [change for change in changes if change.action is not Action.NOTHING]
    if not due:
        click.echo("nothing to do", err=as_json)
    elif not dry_run and not yes:
        _confirm(len(due))
    jobs = {change.name: change.job for change in changes}
    for change in due if not dry_run else ():
        jobs[change.name] = cluster.apply(change)
        click.echo(f"{sanitize(change.name)}: done", err=as_json)
    if as_json:
        print_json([_as_json(change, jobs[change.name]) for change in changes])


def _confirm(count: int) -> None:
    """Ask on the terminal. Raise Refused without one, and Abort if the answer is no."""
    from holdfast.cli.render.table import is_terminal
    from holdfast.model.plural import format_count

    if not is_terminal(sys.stdin):
        raise Refused("these changes need a confirmation, and there is no terminal: repeat with --yes, or with --dry-run")
    click.confirm(f"make {format_count(count, 'change')}?", abort=True, err=True)


def _as_json(change: "JobChange", job: "Job | None") -> dict[str, Any]:
    """Return the change as JSON. Scripts rely on these keys. The id of a job that is yet to be submitted is null."""
    return {
        "act": change.action.name.lower(),
        "name": change.name,
        "id": job.id if job is not None else None,
        "description": change.description,
    }
