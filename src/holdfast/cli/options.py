"""Options that many commands share, and the command class for commands that start a script."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.terminal_callbacks import note, print_job_change, show_transfer
from holdfast.client import Cluster, connect

SIMILARITY_MIN = 0.75
"""Ratio of difflib above which an unknown option is probably a misspelled one."""


def _check_not_blank(kind: click.types.StringParamType | click.Path, value: Any, parameter: click.Parameter | None) -> None:
    """Fail for a blank value, which usually comes from an unset shell variable."""
    if isinstance(value, str) and not value.strip():
        kind.fail("the value is empty; leave out the option to use the default", parameter)


class NonEmptyText(click.types.StringParamType):
    """Text that is not blank."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _check_not_blank(self, value, param)
        return super().convert(value, param, ctx)


class DirectoryPath(click.Path):
    """Path of a directory. An empty value is refused: it would mean the working directory."""

    name = "directory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _check_not_blank(self, value, param)
        return super().convert(value, param, ctx)


def target_options(command: Any) -> Any:
    """Add the options that name the cluster."""
    for option in (
        click.option(
            "--cluster",
            "cluster_name",
            metavar="NAME",
            type=NonEmptyText(),
            help="Name of the cluster, together with --connect (default: 'default').",
        ),
        click.option(
            "--connect",
            metavar="ADDRESS",
            type=NonEmptyText(),
            help="ZooKeeper of the cluster: HOST:PORT,HOST:PORT…[/PATH].",
        ),
        click.option(
            "--dir",
            "directory",
            metavar="DIR",
            type=DirectoryPath(path_type=Path, readable=False),
            help="Directory of a cluster that 'holdfast up' started.",
        ),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def schedule_options(command: Any) -> Any:
    """Add the options of a schedule. Their values are passed to `model.schedule.due_times.change_schedule`."""
    for option in (
        click.option(
            "--park-after",
            metavar="N",
            type=click.IntRange(0),
            help="Park a scheduled job after N failed runs in a row (default: 0, never).",
        ),
        click.option(
            "--catch-up",
            type=click.Choice(["none", "one", "all"]),
            help="Runs for times that passed while no run could start (default: one).",
        ),
        click.option("--timezone", metavar="NAME", help="Time zone of --cron, such as Europe/Berlin (default: UTC)."),
        click.option(
            "--cron", metavar="FIELDS", help="Run the job by a cron expression with five fields, such as '*/5 * * * *'."
        ),
        click.option("--every", metavar="DURATION", help="Run the job repeatedly, at this interval, such as 10m."),
    ):
        command = option(command)
    return command


class ScriptCommand(click.Command):
    """Command whose last arguments belong to a script. An unknown option is explained with the separator `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(_unknown_option(error, ctx.command_path, given), ctx) from error


def _unknown_option(error: click.NoSuchOption, command: str, args: list[str]) -> str:
    import difflib
    import shlex

    position = next((index for index, arg in enumerate(args) if arg.startswith(error.option_name)), len(args))
    example = shlex.join([*command.split(), *args[:position], "--", *args[position:]])
    similar = difflib.get_close_matches(error.option_name, error.possibilities or (), 1, SIMILARITY_MIN)
    suggestion = f" Did you mean '{similar[0]}'?" if similar else ""
    return (
        f"No such option '{error.option_name}'.{suggestion} If it is an argument of the script, put '--' before the script's "
        f"arguments: {example}"
    )


def connect_cluster(directory: Path | None, connect_string: str | None, cluster_name: str | None) -> Cluster:
    """Return the cluster that the options name. Its notes, changes and progress go to stderr."""
    return connect(
        directory,
        connect=connect_string,
        cluster=cluster_name,
        on_note=note,
        on_change=print_job_change,
        on_transfer=show_transfer,
    )
