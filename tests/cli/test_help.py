"""`holdfast --help`: complete, and without importing any command."""

import subprocess
import sys

import click
import pytest

from holdfast.cli.command_index import COMMANDS
from holdfast.cli.command_line import holdfast


@pytest.mark.parametrize("name", [name for commands in COMMANDS.values() for name in commands])
def test_summary_in_index_is_the_summary_of_the_command(name: str) -> None:
    (summary,) = (commands[name][1] for commands in COMMANDS.values() if name in commands)
    command = holdfast.get_command(click.Context(holdfast), name)
    assert command is not None and command.get_short_help_str(80) == summary


def test_help_and_ls_do_not_import_slow_libraries() -> None:
    code = "import sys, holdfast.cli.command_line, holdfast.cli.commands.ls; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not {"rich.console", "kazoo", "asyncio", "structlog", "starlette", "pyspark"} & loaded


def test_reading_jobs_imports_neither_writing_modules_nor_slow_libraries() -> None:
    code = "import sys, holdfast.client.jobs.listing; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    unused = {"holdfast.zk.leadership.election", "holdfast.zk.records.job_lookup", "holdfast.zk.session.client"}
    assert not (unused | {"asyncio", "kazoo", "ssl", "structlog"}) & loaded


def test_command_starts_and_exits_without_garbage_collection() -> None:
    """Print the collections from the first import to the exit, and the objects that the collection at exit does not visit."""
    code = """
import atexit, gc, sys
from holdfast.cli.main import main

def count():
    return sum(generation["collections"] for generation in gc.get_stats())

before = count()
atexit.register(lambda: print(count() - before, gc.get_freeze_count(), file=sys.stderr))
sys.argv = ["holdfast", "ls", "--help"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    collections, frozen = map(int, done.stderr.split())
    assert collections == 0 and frozen > 10_000
