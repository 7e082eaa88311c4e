"""The `holdfast` command."""

import contextlib
import difflib
import importlib
import io
import os
import sys

import click

from holdfast import __version__
from holdfast.cli.interrupts import exit_interrupted, hear_interrupts
from holdfast.cli.render.sanitize import plain
from holdfast.errors import HoldfastError

COMMANDS = {
    "Jobs": {
        "submit": "submit",
        "ls": "ls",
        "show": "show",
        "events": "events",
        "logs": "logs",
        "stop": "job_control",
        "resume": "job_control",
        "restart": "job_control",
        "cancel": "job_control",
        "upgrade": "upgrade",
        "apply": "apply",
        "savepoint": "savepoint",
        "quarantine": "quarantine",
    },
    "Logs": {"explain": "explain"},
    "Clusters": {"up": "up_down", "down": "up_down", "node": "node", "cluster": "cluster"},
    "Shell": {"completion": "completion"},
}
"""Every command, and the module that it is in. Only the one that is run is loaded."""

_MODULES = {name: module for commands in COMMANDS.values() for name, module in commands.items()}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            if near := difflib.get_close_matches(cmd_name, _MODULES, 1):
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {near[0]!r}?")
            return None
        command: click.Command = getattr(importlib.import_module(f"holdfast.cli.commands.{_MODULES[cmd_name]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in COMMANDS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, command.get_short_help_str(80)) for name, command in commands if command is not None]
                )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def holdfast() -> None:
    """Keeps PySpark streaming jobs running when ZooKeeper, Kafka, a machine or one of the jobs does not."""


def main() -> None:
    """Exit codes: 0 done, 1 refused or failed with a sentence on stderr, 2 wrong usage."""
    _let_everything_be_printed()
    hear_interrupts()
    try:
        holdfast.main(standalone_mode=False)
    except click.Abort:
        exit_interrupted()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except HoldfastError as error:
        click.echo(f"holdfast: {plain(str(error))}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        exit_interrupted()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        _say_last_words(f"{type(error).__name__}: {error}; HOLDFAST_DEBUG=1 shows where")
        sys.exit(1)


def _say_last_words(sentence: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"holdfast: {plain(sentence)}", err=True)


def _let_everything_be_printed() -> None:
    """A terminal that knows fewer letters shows something else for them. That is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
