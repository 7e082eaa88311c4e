"""`holdfast upgrade`: give a job another program, which continues from the same checkpoint."""

from pathlib import Path

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.commands.job_control import print_final_job
from holdfast.cli.options import ScriptCommand, connect_cluster, json_option, schedule_options, target_options
from holdfast.cli.render.sanitize import sanitize
from holdfast.model.duration import parse_duration


@click.command(cls=ScriptCommand)
@target_options
@job_argument()
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--restart", "restart_strategy", metavar="STRATEGY", help="Restart strategy after a failure (default: unchanged)."
)
@schedule_options
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="Spark setting; replaces all previous settings. Repeatable.")
@click.option(
    "--py-files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File that the script imports; replaces all previous files. Repeatable.",
)
@click.option(
    "--within",
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="Time for the first batch, in addition to the duration of a real-time batch. If it is not committed by then, the "
    "previous version is started again.",
)
@click.option("--wait", "waits", is_flag=True, help="Wait until the first batch is committed or the previous version is back.")
@json_option
def upgrade(
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    job: str,
    script: Path,
    arguments: tuple[str, ...],
    restart_strategy: str | None,
    every: str | None,
    cron: str | None,
    timezone: str | None,
    catch_up: str | None,
    park_after: int | None,
    conf: tuple[str, ...],
    py_files: tuple[Path, ...],
    within: str,
    waits: bool,
    as_json: bool,
) -> None:
    """Replace a job's program; the new one continues from the same checkpoint.

    The job stops after its current batch. Arguments, settings, files and parts of the schedule that are not given stay as they
    are. If the new
    version does not commit its first batch in time, the previous version is started again.
    """
    from holdfast.client.deployment.job_request import check_upgrade, parse_conf_options
    from holdfast.model.schedule.due_times import Schedule, change_schedule

    def schedule(current: Schedule | None) -> Schedule | None:
        return change_schedule(
            current, every=every, cron_text=cron, timezone=timezone, catch_up=catch_up, park_after=park_after
        )

    trial_s = parse_duration(within)
    settings = parse_conf_options(conf)
    request = check_upgrade(script, restart_strategy=restart_strategy, arguments=arguments, conf=settings, py_files=py_files)
    cluster = connect_cluster(directory, connect, cluster_name)
    result = cluster.upgrade_request(job, request, restart=restart_strategy, trial_s=trial_s, schedule=schedule)
    if as_json:
        print_final_job(lambda: cluster.wait_for_upgrade(result) if waits else cluster.job(result.job))
        return
    click.echo(f"{sanitize(result.job.label)} {sanitize(result.effect)}")
    if waits:
        cluster.wait_for_upgrade(result)
