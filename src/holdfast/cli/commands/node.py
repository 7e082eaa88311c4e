"""`holdfast node`: run one node. The process becomes the guard of the node."""

import os
import sys
from pathlib import Path

import click

from holdfast import config
from holdfast.errors import Refused


@click.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("holdfast.toml"),
    show_default=True,
    help="Configuration file of the node.",
)
@click.option(
    "--accept-zookeeper",
    is_flag=True,
    help="Accept the present data of ZooKeeper, even if earlier data is missing. Applies to this start only.",
)
def node(config_path: Path, accept_zookeeper: bool) -> None:
    """Run one node of a cluster in the foreground."""
    settings = config.load_config(config_path)
    try:
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot use the directory {settings.directory}: {error.strerror}") from error
    agent = [sys.executable, "-P", "-m", "holdfast.cli.agent_main", str(config_path.absolute())]
    if accept_zookeeper:
        agent.append("--accept-zookeeper")
    # Replace this process instead of starting a child: the guard must stay small, and exec frees the modules loaded here.
    command = [sys.executable, "-P", "-m", "holdfast.node.guard", str(settings.directory.absolute()), *agent]
    sys.stdout.flush()
    os.execv(sys.executable, command)
