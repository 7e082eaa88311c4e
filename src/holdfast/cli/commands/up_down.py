"""`holdfast up` and `holdfast down`: start and stop a cluster on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from types import FrameType

import click

from holdfast.cli.options import DirectoryPath
from holdfast.client.connection.target import resolve_directory
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.local.directory_layout import DirectoryLayout
from holdfast.local.file_owner import file_owner
from holdfast.local.local_cluster import READY_TIMEOUT_S, LocalCluster, LocalClusterOptions, lock_directory, read_supervisor
from holdfast.local.private_files import create_private_directory

TEND_S = 0.1
DOWN_S = 60.0
PROBE_BYTES = 64 * 1024
"""Size of the file whose write shows whether the disk is full."""

directory_option = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=DirectoryPath(path_type=Path, readable=False),
    help="Directory of the cluster (default: HOLDFAST_DIR or ~/.holdfast).",
)


@click.command()
@directory_option
@click.option("--nodes", type=click.IntRange(1, 50), default=1, show_default=True, help="Number of nodes.")
@click.option(
    "--zookeepers",
    type=click.IntRange(1, 5),
    help="Number of ZooKeeper servers: 1, 3 or 5 (default: 1, or that of the existing cluster).",
)
@click.option("--slots", type=click.IntRange(1, 1000), default=4, show_default=True, help="Slots of each node.")
@click.option("--detach", is_flag=True, help="Return when the cluster is ready, and leave it running in the background.")
@click.option(
    "--faults", is_flag=True, help="Allow the disks of the ZooKeeper servers to be stalled, for tests. Needs a C compiler."
)
@click.option(
    "--accept-zookeeper",
    is_flag=True,
    help="Accept the present data of ZooKeeper, even if earlier data is missing. Applies to this start only.",
)
def up(
    directory: Path | None, nodes: int, zookeepers: int | None, slots: int, detach: bool, faults: bool, accept_zookeeper: bool
) -> None:
    """Start a cluster on this machine: ZooKeeper servers and nodes.

    Processes that die are restarted. Ctrl-C or 'holdfast down' stops the cluster; its data stays.
    """
    layout = DirectoryLayout(resolve_directory(directory))
    if detach:
        _detach(layout)
        return
    options = LocalClusterOptions(
        nodes=nodes, zookeepers=zookeepers, slots=slots, faults=faults, accept_zookeeper=accept_zookeeper
    )
    with lock_directory(layout):
        _supervise(layout, options)


class _Terminated(BaseException):
    """SIGTERM or SIGHUP: stop the cluster and exit with code 0. Ctrl-C exits with 130 instead."""


def _raise_terminated(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


def _supervise(layout: DirectoryLayout, options: LocalClusterOptions) -> None:
    """Run the cluster until a signal. Raise KeyboardInterrupt after a clean stop if the signal was Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _raise_terminated)
    cluster = LocalCluster(layout, options, report=_print_sentence)
    interrupted = False
    try:
        cluster.start()
        cluster.wait_ready()
        _print_sentence(f"the cluster in {layout.directory} is ready; 'holdfast down --dir {layout.directory}' stops it")
        while True:
            cluster.restart_dead_processes()
            time.sleep(TEND_S)
    except (KeyboardInterrupt, _Terminated) as stop:
        interrupted = isinstance(stop, KeyboardInterrupt)
        _print_sentence("stopping the cluster")
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        cluster.stop()
    _print_sentence(f"the cluster in {layout.directory} is stopped")
    if interrupted:
        raise KeyboardInterrupt


def _print_sentence(sentence: str) -> None:
    """Print a sentence. Ignore errors: the cluster continues even if nothing reads its output."""
    with contextlib.suppress(OSError):
        click.echo(sentence)


def _detach(layout: DirectoryLayout) -> None:
    """Run the same command without --detach in a new process session, and wait until the cluster is ready."""
    try:
        create_private_directory(layout)
        layout.log.touch(mode=0o600)
        log = layout.log.open("ab", buffering=0)
        # A full disk is noticed here: the new process could not even log its error.
        log.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S%z} holdfast up --dir {layout.directory}\n".encode())
    except OSError as error:
        raise Refused(f"cannot write to {layout.log}: {error.strerror}") from error
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
        click.echo("interrupted; the cluster is stopped", err=True)
        raise


def _wait_until_ready(layout: DirectoryLayout, process: "subprocess.Popen[bytes]", start: int) -> None:
    shown = 0
    give_up_at = time.monotonic() + READY_TIMEOUT_S + 30
    while time.monotonic() < give_up_at:
        ended = process.poll() is not None
        lines = _new_lines(layout.log, start)
        for line in lines[shown:]:
            if not line.startswith("holdfast: "):
                click.echo(line)
        shown = len(lines)
        if ended:
            sentence = next((line for line in reversed(lines) if line.startswith("holdfast: ")), None)
            raise Refused((sentence or _describe_silent_end(layout)).removeprefix("holdfast: "))
        if _ready(layout, process.pid):
            return
        time.sleep(TEND_S)
    raise Unavailable(
        f"the cluster in {layout.directory} is not ready yet and keeps starting: see {layout.log}, "
        f"or stop it with 'holdfast down --dir {layout.directory}'"
    )


def _describe_silent_end(layout: DirectoryLayout) -> str:
    """Return a sentence about a process that ended without an error message, for example because the disk is full."""
    try:
        with tempfile.TemporaryFile(dir=layout.directory) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
    except OSError as error:
        return f"the cluster did not start: cannot write to {layout.directory}: {error.strerror}"
    return f"the cluster did not start: see {layout.log}"


def _new_lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(start)
        complete, _, _ = file.read().decode(errors="replace").rpartition("\n")
    return complete.splitlines()


def _ready(layout: DirectoryLayout, pid: int) -> bool:
    try:
        description = layout.read_description()
    except HoldfastError:
        return False
    return description.ready and description.supervisor.pid == pid


@click.command()
@directory_option
def down(directory: Path | None) -> None:
    """Stop the cluster that 'holdfast up' started on this machine. Its data stays."""
    layout = DirectoryLayout(resolve_directory(directory))
    process = read_supervisor(layout) or layout.read_description().supervisor
    try:
        was_running = process.send_signal(signal.SIGTERM)
    except PermissionError:
        owner = file_owner(Path("/proc") / str(process.pid))
        raise Refused(
            f"the cluster in {layout.directory} belongs to user {owner}: only this user and root can stop it"
        ) from None
    if not was_running:
        click.echo(f"no cluster is running in {layout.directory}")
        return
    give_up_at = time.monotonic() + DOWN_S
    while process.is_alive:
        if time.monotonic() > give_up_at:
            raise Unavailable(f"the cluster in {layout.directory} (pid {process.pid}) did not stop within {DOWN_S:g} s")
        time.sleep(TEND_S)
    click.echo(f"the cluster in {layout.directory} is stopped")
