"""`holdfast --help`: complete, and without importing any command."""

import subprocess
import sys

import click
import pytest

from holdfast.cli.command_index import COMMANDS
from holdfast.cli.main import holdfast


@pytest.mark.parametrize("name", [name for commands in COMMANDS.values() for name in commands])
def test_summary_in_index_is_the_summary_of_the_command(name: str) -> None:
    (summary,) = (commands[name][1] for commands in COMMANDS.values() if name in commands)
    command = holdfast.get_command(click.Context(holdfast), name)
    assert command is not None and command.get_short_help_str(80) == summary


def test_help_and_ls_do_not_import_slow_libraries() -> None:
    code = "import sys, holdfast.cli.main as main, holdfast.cli.commands.ls; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not {"rich.console", "kazoo", "asyncio", "structlog", "starlette", "pyspark"} & loaded


def test_reading_jobs_imports_neither_writing_modules_nor_slow_libraries() -> None:
    code = "import sys, holdfast.client.jobs.listing; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    unused = {"holdfast.zk.leadership.election", "holdfast.zk.records.job_lookup", "holdfast.zk.session.client"}
    assert not (unused | {"asyncio", "kazoo", "ssl", "structlog"}) & loaded


def test_table_of_jobs_does_not_import_rich_console() -> None:
    code = "import sys, holdfast.cli.render.job_table; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert "rich.console" not in loaded
