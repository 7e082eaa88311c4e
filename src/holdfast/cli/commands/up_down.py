"""`holdfast up` and `holdfast down`: a cluster on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click

from holdfast.client.target import directory_or_default
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.local.directory_layout import Layout
from holdfast.local.local_cluster import READY_S, LocalCluster, Wish, owned, supervisor_of

TEND_S = 0.1
DOWN_S = 60.0


@click.command()
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where it lives. Default: HOLDFAST_DIR or ~/.holdfast."
)
@click.option("--nodes", type=click.IntRange(1, 50), default=1, show_default=True, help="How many nodes.")
@click.option(
    "--zookeepers", type=click.IntRange(1, 5), help="How many ZooKeeper servers: 1, 3 or 5. Default: 1, or as before."
)
@click.option("--slots", type=click.IntRange(1, 1000), default=4, show_default=True, help="Slots that each node offers.")
@click.option("--detach", is_flag=True, help="Return when it is ready, and leave it running.")
@click.option(
    "--faults", is_flag=True, help="Make the disks of its ZooKeeper servers stallable, for drills. Needs a C compiler."
)
@click.option("--accept-zookeeper", is_flag=True, help="Take its ZooKeeper as it is now, even if it lost data. Once.")
def up(
    directory: Path | None, nodes: int, zookeepers: int | None, slots: int, detach: bool, faults: bool, accept_zookeeper: bool
) -> None:
    """Start a cluster on this machine and keep it alive: ZooKeeper servers and nodes that die are started again."""
    layout = Layout(directory_or_default(directory))
    if detach:
        _detach(layout)
        return
    wish = Wish(nodes=nodes, zookeepers=zookeepers, slots=slots, faults=faults, accept_zookeeper=accept_zookeeper)
    with owned(layout):
        _supervise(layout, wish)


def _supervise(layout: Layout, wish: Wish) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asked for that
            signal.signal(number, signal.default_int_handler)
    cluster = LocalCluster(layout, wish, say=_say)
    try:
        cluster.start()
        cluster.wait_ready()
        _say(f"the cluster in {layout.directory} is ready; 'holdfast down --dir {layout.directory}' ends it")
        while True:
            cluster.tend()
            time.sleep(TEND_S)
    except KeyboardInterrupt:
        _say("stopping")
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        cluster.stop()
    _say("stopped")


def _say(sentence: str) -> None:
    """Whether or not anybody still listens: the cluster goes on."""
    with contextlib.suppress(OSError):
        click.echo(sentence)


def _detach(layout: Layout) -> None:
    """Run the same command without --detach in a session of its own, and wait until it is ready."""
    try:
        layout.directory.mkdir(parents=True, exist_ok=True)
        log = layout.log.open("ab")
    except OSError as error:
        raise Refused(f"cannot use the directory {layout.directory}: {error.strerror}") from error
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    with log:
        start = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "HOLDFAST_DIR": str(layout.directory)},
        )
    try:
        _wait_until_ready(layout, process, start)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        click.echo("stopped")
        raise


def _wait_until_ready(layout: Layout, process: "subprocess.Popen[bytes]", start: int) -> None:
    told = 0
    give_up_at = time.monotonic() + READY_S + 30
    while time.monotonic() < give_up_at:
        ended = process.poll() is not None
        lines = _new_lines(layout.log, start)
        for line in lines[told:]:
            if not line.startswith("holdfast: "):
                click.echo(line)
        told = len(lines)
        if ended:
            sentence = next((line for line in reversed(lines) if line.startswith("holdfast: ")), None)
            raise Refused((sentence or f"the cluster did not start; see {layout.log}").removeprefix("holdfast: "))
        if _ready(layout, process.pid):
            return
        time.sleep(TEND_S)
    raise Unavailable(f"the cluster is not ready; it goes on trying, see {layout.log}")


def _new_lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(start)
        complete, _, _ = file.read().decode(errors="replace").rpartition("\n")
    return complete.splitlines()


def _ready(layout: Layout, pid: int) -> bool:
    try:
        description = layout.described()
    except HoldfastError:
        return False
    return description.ready and description.supervisor.pid == pid


@click.command()
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where it lives. Default: HOLDFAST_DIR or ~/.holdfast."
)
def down(directory: Path | None) -> None:
    """End the cluster that `holdfast up` started here. Its data stays."""
    layout = Layout(directory_or_default(directory))
    process = supervisor_of(layout) or layout.described().supervisor
    if not process.send(signal.SIGTERM):
        click.echo(f"no cluster is running in {layout.directory}")
        return
    give_up_at = time.monotonic() + DOWN_S
    while process.alive:
        if time.monotonic() > give_up_at:
            raise Unavailable(f"the cluster in {layout.directory} (pid {process.pid}) did not stop within {DOWN_S:g} s")
        time.sleep(TEND_S)
    click.echo(f"the cluster in {layout.directory} is stopped")
