"""Group of all commands, and the exit code of each outcome. Only the module of the command that runs is imported."""

import contextlib
import errno
import importlib
import io
import os
import sys

import click

from holdfast import __version__
from holdfast.cli.command_index import COMMANDS
from holdfast.cli.interrupts import exit_interrupted, install_interrupt_hook
from holdfast.cli.render.sanitize import sanitize
from holdfast.errors import HoldfastError

_MODULES = {name: module for commands in COMMANDS.values() for name, (module, _) in commands.items()}

_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            import difflib

            if near := difflib.get_close_matches(cmd_name, _MODULES, 1):
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {near[0]!r}?")
            return None
        command: click.Command = getattr(importlib.import_module(f"holdfast.cli.commands.{_MODULES[cmd_name]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def holdfast() -> None:
    """Keep PySpark streaming jobs running while ZooKeeper, Kafka, machines or the jobs themselves fail."""


def run_command() -> None:
    """Run a command. Exit codes: 0 done, 1 refused or failed with a sentence on stderr, 2 wrong usage, 130 interrupted."""
    _replace_closed_streams()
    _escape_unprintable_output()
    install_interrupt_hook()
    try:
        holdfast.main(prog_name="holdfast", standalone_mode=False)
    except click.Abort:
        exit_interrupted()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except HoldfastError as error:
        _print_error(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        exit_interrupted()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        _print_error(_describe_unexpected(error))
        sys.exit(1)


def _describe_unexpected(error: Exception) -> str:
    """Return a sentence for an error that no command handles."""
    if isinstance(error, OSError) and error.errno in _WRITE_ERRORS and error.filename is None:  # of an open file
        return f"the output cannot be written: {error.strerror}. The command may have taken effect all the same"
    if isinstance(error, OSError) and error.strerror:
        problem = f"{error.strerror}: {os.fsdecode(error.filename)}" if error.filename is not None else error.strerror
    else:
        problem = f"{type(error).__name__}: {error}"
    return f"unexpected error: {problem} (HOLDFAST_DEBUG=1 prints the traceback)"


def _print_error(sentence: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"holdfast: {sanitize(sentence)}", err=True)


def _replace_closed_streams() -> None:
    """Open /dev/null in place of streams that the caller has closed.

    Otherwise a connection gets the number of a closed stream, and the output of a child process goes into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 -- open until the process ends


def _escape_unprintable_output() -> None:
    """Print characters that the terminal's encoding lacks as escape sequences, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
