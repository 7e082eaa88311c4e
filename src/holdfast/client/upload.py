"""Bringing code into the cluster's storage."""

import sys
from pathlib import Path

from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import console, is_terminal
from holdfast.cli.waiting import say
from holdfast.client.session import read
from holdfast.client.target import Target
from holdfast.errors import HoldfastError, Refused
from holdfast.storage import Storage, open_storage
from holdfast.zk.records.job_reader import optional
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

BAR_BYTES_MIN = 1_000_000


def storage_of(target: Target) -> Storage:
    return open_storage(storage_location(target))


def storage_location(target: Target) -> str:
    return read(target, lambda client: _location(client, target.paths))


async def _location(client: Client, paths: Paths) -> str:
    znode = await optional(client.get(paths.storage))
    if znode is None:
        raise Refused(f"no node has ever joined this cluster ({paths.root}), so it has no storage for the code")
    try:
        return znode.data.decode()
    except UnicodeDecodeError:
        raise Refused(f"{paths.storage} does not say where the storage is: {znode.data[:40]!r}") from None


def upload(storage: Storage, files: tuple[Path, ...]) -> dict[Path, str]:
    if sum(map(_size, files)) < BAR_BYTES_MIN or not is_terminal(sys.stderr):
        return {file: storage.put(file) for file in files}
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    blobs: dict[Path, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        for file in files:
            # How far one file has come only the storage knows.
            task = progress.add_task(f"storing {plain(file.name)} ({_size(file) / 1e6:,.1f} MB)", total=None)
            blobs[file] = storage.put(file)
            progress.update(task, total=1, completed=1)
    return blobs


def _size(file: Path) -> int:
    """For show only: whether it is there to be read, the storage says."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def ensure(storage: Storage, blobs: dict[Path, str]) -> None:
    """After the record that names them is written: a sweeper may have come between."""
    try:
        for file, digest in blobs.items():
            storage.ensure(file, digest)
    except HoldfastError as error:
        say(f"it is done, but whether its code is still in the storage could not be checked: {error}")
