"""`holdfast stop`, `resume`, `restart` and `cancel`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.terminal_callbacks import note

if TYPE_CHECKING:
    from holdfast.client import Cluster, ControlResult, Job


def _control_options(command: Any) -> Any:
    """Add the options and the argument that these commands share."""
    wait_option = click.option("--wait", is_flag=True, help="Wait until the command has taken effect.")
    for option in (target_options, job_argument(), json_option, wait_option):
        command = option(command)
    return command


def _report(cluster: "Cluster", result: "ControlResult", *, wait: bool, as_json: bool) -> None:
    """Print the result of a command, and wait until it has taken effect if that is asked for."""
    if not as_json:
        click.echo(f"{sanitize(result.job.label)} {sanitize(result.effect)}")
    if not result.has_leader:
        note("no node leads at the moment; the request takes effect as soon as a node does")
    if as_json:
        print_final_job(lambda: cluster.wait(result) if wait else cluster.job(result.job))
    elif wait:
        cluster.wait(result)


def print_final_job(read: "Callable[[], Job]") -> None:
    """Print the job that `read` returns as JSON. If waiting fails, print the job's last state and raise the failure."""
    from holdfast.cli.render.json_output import print_job_json
    from holdfast.client import WaitFailed

    try:
        job = read()
    except WaitFailed as failure:
        print_job_json(failure.job)
        raise
    print_job_json(job)


@click.command()
@_control_options
@click.option("--savepoint", is_flag=True, help="Make a savepoint once the job has stopped.")
def stop(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    wait: bool,
    as_json: bool,
    savepoint: bool,
) -> None:
    """Stop a job after its current batch; 'resume' continues it.

    A job whose batch takes longer than the setting timing.stop_s is killed; that batch then runs again. The duration of a
    real-time batch is added to the limit.
    """
    cluster = connect_cluster(directory, connect, cluster_name)
    result = cluster.stop(job)
    _report(cluster, result, wait=wait or savepoint, as_json=as_json)
    if savepoint:
        from holdfast.cli.commands.savepoint import describe_savepoint

        click.echo(describe_savepoint(cluster.savepoint(result.job)), err=as_json)


@click.command()
@_control_options
def cancel(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool, as_json: bool) -> None:
    """End a job permanently: kill its driver at once and free its name. A cancelled job cannot be resumed."""
    cluster = connect_cluster(directory, connect, cluster_name)
    _report(cluster, cluster.cancel(job), wait=wait, as_json=as_json)


@click.command()
@_control_options
@click.option(
    "--force",
    is_flag=True,
    help="Start even though nothing proves that the last attempt is dead. Only if its machine is switched off.",
)
def restart(
    directory: Path | None, connect: str | None, cluster_name: str | None, job: str, wait: bool, as_json: bool, force: bool
) -> None:
    """Stop the running attempt after its current batch, and start another. A stopped job is started."""
    cluster = connect_cluster(directory, connect, cluster_name)
    _report(cluster, cluster.restart(job, force=force), wait=wait, as_json=as_json)


@click.command()
@_control_options
@click.option(
    "--offsets",
    metavar="keep|earliest|latest|FILE",
    help='Kafka offsets from which partitions with a problem continue. FILE contains {"topic": {"0": 17}}.',
)
@click.option(
    "--trust-checkpoint",
    is_flag=True,
    help="Use the checkpoint although it is damaged: you have looked at the findings. New damage parks the job again.",
)
@click.option("--reason", metavar="TEXT", default="", help="Why the checkpoint may be trusted. It is recorded with your name.")
def resume(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    wait: bool,
    as_json: bool,
    offsets: str | None,
    trust_checkpoint: bool,
    reason: str,
) -> None:
    """Start a stopped or parked job again from its last committed batch."""
    if trust_checkpoint != bool(reason.strip()):
        raise click.UsageError("--trust-checkpoint and --reason belong together: say why the checkpoint may be used.")
    if trust_checkpoint and offsets is not None:
        raise click.UsageError("--trust-checkpoint cannot be combined with --offsets: they answer different findings.")
    cluster = connect_cluster(directory, connect, cluster_name)
    if offsets is not None:
        parked = cluster.job(job)
        choice = cluster.choose_offsets(parked, offsets)
        click.echo(f"{sanitize(parked.label)}: {sanitize(choice.describe())}", err=as_json)
    result = cluster.resume(job, trust_checkpoint=trust_checkpoint, reason=reason)
    _report(cluster, result, wait=wait, as_json=as_json)
