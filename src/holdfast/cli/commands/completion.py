"""Shell completion: `holdfast completion` and the completion of job names."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.errors import HoldfastError

COMPLETE_S = 1.5
"""Time limit for the cluster to list its jobs after the user pressed a key."""
COMPLETE_VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell script that completes commands and job names.

    For bash: eval "$(holdfast completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(kind(context.find_root().command, {}, "holdfast", COMPLETE_VARIABLE).source())


def job_argument(*, required: bool = True) -> Callable[[Any], Any]:
    """Add the argument that names a job. Its values complete from the cluster."""
    return click.argument("job", metavar="JOB" if required else "[JOB]", required=required, shell_complete=complete_job)


def complete_job(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of live jobs that begin with `incomplete`; none if the cluster does not answer in time."""
    names: list[str] = []

    def read() -> None:
        try:
            names.extend(_read_names(context))
        except (HoldfastError, OSError, TimeoutError):
            return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(COMPLETE_S)
    return sorted(name for name in names if name.startswith(incomplete))


def _read_names(context: click.Context) -> list[str]:
    from holdfast.client import connect

    options = context.params
    directory: Path | None = options.get("directory")
    return connect(directory, connect=options.get("connect"), cluster=options.get("cluster_name")).job_names()
