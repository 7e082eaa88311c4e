"""Completion in shells: the script that turns it on, and the names of jobs."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.client.target import Target, find
from holdfast.errors import HoldfastError

COMPLETE_S = 1.5
"""Whoever presses a key does not wait for longer."""
COMPLETE_VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and jobs.

    For bash: eval "$(holdfast completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(kind(context.find_root().command, {}, "holdfast", COMPLETE_VARIABLE).source())


def job_argument(*, required: bool = True) -> Callable[[Any], Any]:
    """The argument that names a job. It completes from the cluster."""
    return click.argument("job", metavar="JOB", required=required, shell_complete=complete_job)


def complete_job(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Live jobs by name. Nothing at all if that takes too long or goes wrong: nobody asked."""
    found: list[str] = []

    def look() -> None:
        try:
            found.extend(asyncio.run(_names(_target(context))))
        except (HoldfastError, OSError, TimeoutError):
            return

    asking = threading.Thread(target=look, daemon=True)
    asking.start()
    asking.join(COMPLETE_S)
    return sorted(name for name in found if name.startswith(incomplete))


def _target(context: click.Context) -> Target:
    said = context.params
    directory: Path | None = said.get("directory")
    return find(directory, said.get("connect"), said.get("cluster_name"))


async def _names(target: Target) -> list[str]:
    from holdfast.client.session import session

    async with session(target) as client:
        return await client.children(target.paths.names)
