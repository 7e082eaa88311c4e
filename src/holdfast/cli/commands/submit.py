"""`holdfast submit`: submit a program as a job."""

from pathlib import Path

import click

from holdfast.cli.commands.job_control import print_final_job
from holdfast.cli.options import ScriptCommand, connect_cluster, json_option, schedule_options, target_options
from holdfast.cli.render.sanitize import sanitize


@click.command(cls=ScriptCommand)
@target_options
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", help="Name of the job (default: the script's name).")
@click.option(
    "--restart",
    "restart_strategy",
    metavar="STRATEGY",
    help="Restart strategy after a failure: never, exponential, fixed:N:DELAY or rate:N:PERIOD:DELAY. Default: exponential, "
    "but a script that fails 3 times before its first batch fails the job.",
)
@click.option(
    "--slots", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of slots that the job occupies."
)
@schedule_options
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="Spark setting. Repeatable.")
@click.option(
    "--py-files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File that the script imports: .py, .zip, .egg or .whl. Repeatable.",
)
@click.option(
    "--restore",
    metavar="JOB|SAVEPOINT",
    help="Continue from a savepoint, or from the checkpoint of a job that has stopped or ended.",
)
@click.option("--instead-of", metavar="JOB", multiple=True, help="Stop and cancel this job first. Repeatable.")
@click.option(
    "--request-id", metavar="ID", help="Idempotency key: submitting again with the same key returns the existing job."
)
@click.option("--wait", "waits", is_flag=True, help="Wait until the first batch is committed or the job has ended.")
@json_option
def submit(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    script: Path,
    arguments: tuple[str, ...],
    name: str | None,
    restart_strategy: str | None,
    slots: int,
    every: str | None,
    cron: str | None,
    timezone: str | None,
    catch_up: str | None,
    park_after: int | None,
    conf: tuple[str, ...],
    py_files: tuple[Path, ...],
    restore: str | None,
    instead_of: tuple[str, ...],
    request_id: str | None,
    waits: bool,
    as_json: bool,
) -> None:
    """Submit a PySpark script, or a declarative pipeline (.yml). The cluster then keeps it running.

    With --every or --cron, the job runs by a schedule: each run ends by itself, and the next one starts when it is due.

    ARGS are the arguments of the script; put '--' before them.
    """
    from holdfast.client.deployment.job_request import check_request, parse_conf_options
    from holdfast.model.schedule.due_times import make_schedule

    request = check_request(
        script,
        name=name,
        restart_strategy=restart_strategy,
        slots=slots,
        arguments=arguments,
        conf=parse_conf_options(conf),
        py_files=py_files,
        schedule=make_schedule(every=every, cron_text=cron, timezone=timezone, catch_up=catch_up, park_after=park_after),
    )
    cluster = connect_cluster(directory, connect, cluster_name)
    job = cluster.submit_request(request, restore=restore, replaces=instead_of, request_id=request_id)
    if as_json:
        print_final_job(lambda: cluster.wait(job, "first_batch") if waits else job)
        return
    click.echo(f"{sanitize(job.id)} {sanitize(job.name or '')}")
    if waits:
        cluster.wait(job, "first_batch")
