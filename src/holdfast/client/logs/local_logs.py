"""Logs of a cluster on this machine, read from its directory. They are readable even if the cluster is not running."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.client.logs.log_copies import LogCopies
from holdfast.local.directory_layout import DirectoryLayout
from holdfast.node.event_log import FILES_MAX
from holdfast.runner.attempt_layout import DRIVER_LOG

EVENT_LOG = "events.jsonl"


def read_event_logs(local: DirectoryLayout) -> Iterator[dict[str, Any]]:
    """Yield the events of all nodes' event logs. Each node logs the events of the times when it led."""
    for file in sorted(local.nodes.glob(f"*/{EVENT_LOG}*")):
        with contextlib.suppress(OSError), file.open(errors="replace") as lines:
            yield from filter(None, map(_parse_event, lines))


def _parse_event(line: str) -> dict[str, Any] | None:
    """Return None for an incomplete or malformed line."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_complete = isinstance(event, dict) and isinstance(event.get("job"), str) and isinstance(event.get("number"), int)
    return event if is_complete else None


def copy_daemons(local: DirectoryLayout, copies: LogCopies) -> None:
    """Copy the logs of nodes and ZooKeeper servers."""
    for pattern in ("nodes/*/node.log", "zookeeper/*/zookeeper.log"):
        for file in sorted(local.directory.glob(pattern)):
            _copy(_oldest_first(file), str(file.relative_to(local.directory)), copies)


def copy_attempts(local: DirectoryLayout, names: Mapping[str, str], copies: LogCopies) -> None:
    """Copy the output of drivers, the newest attempts first. `names` maps job ids to names."""
    logs = [
        (int(directory.name), names.get(directory.parent.name, directory.parent.name), directory / DRIVER_LOG)
        for directory in local.nodes.glob("*/attempts/*/*")
        if directory.name.isdecimal()
    ]
    for attempt, name, file in sorted(logs, key=lambda one: (-one[0], *one[1:])):
        _copy(_oldest_first(file), f"job {name}, attempt {attempt}", copies)


def _oldest_first(file: Path) -> list[Path]:
    older = [file.with_name(f"{file.name}.{number}") for number in range(FILES_MAX, 0, -1)]
    return [one for one in (*older, file) if one.is_file()]


def _copy(files: list[Path], name: str, copies: LogCopies) -> None:
    if not files:
        return
    try:
        with copies.begin(name) as copying:
            for file in files:
                with file.open("rb") as source:
                    shutil.copyfileobj(source, copying)
    except OSError as error:
        copies.notes.append(f"{name} cannot be read: {error.strerror}")
