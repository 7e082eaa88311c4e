"""What a cluster on this machine has on its disk. It is there whatever has become of the cluster."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.client.log_copies import Copies
from holdfast.local.directory_layout import Layout
from holdfast.node.event_log import FILES_MAX
from holdfast.runner.attempt_layout import DRIVER_LOG

EVENT_LOG = "events.jsonl"


def events_of(local: Layout) -> Iterator[dict[str, Any]]:
    """As the nodes have noted them, each node those of its own reigns."""
    for file in sorted(local.nodes.glob(f"*/{EVENT_LOG}*")):
        with contextlib.suppress(OSError), file.open(errors="replace") as lines:
            yield from filter(None, map(_event, lines))


def _event(line: str) -> dict[str, Any] | None:
    """None if it is only the half of one."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(event, dict) and isinstance(event.get("job"), str) and isinstance(event.get("number"), int)
    return event if whole else None


def copy_daemons(local: Layout, copies: Copies) -> None:
    """What nodes and ZooKeeper servers log."""
    for pattern in ("nodes/*/node.log", "zookeeper/*/zookeeper.log"):
        for file in sorted(local.directory.glob(pattern)):
            _copy(_oldest_first(file), str(file.relative_to(local.directory)), copies)


def copy_attempts(local: Layout, names: Mapping[str, str], copies: Copies) -> None:
    """What drivers have printed, the newest attempts first. `names`: what jobs are called, as far as it is known."""
    found = [
        (int(directory.name), names.get(directory.parent.name, directory.parent.name), directory / DRIVER_LOG)
        for directory in local.nodes.glob("*/attempts/*/*")
        if directory.name.isdecimal()
    ]
    for attempt, name, file in sorted(found, key=lambda one: (-one[0], *one[1:])):
        _copy(_oldest_first(file), f"job {name}, attempt {attempt}", copies)


def _oldest_first(file: Path) -> list[Path]:
    older = [file.with_name(f"{file.name}.{number}") for number in range(FILES_MAX, 0, -1)]
    return [one for one in (*older, file) if one.is_file()]


def _copy(files: list[Path], name: str, copies: Copies) -> None:
    if not files:
        return
    try:
        with copies.begin(name) as copying:
            for file in files:
                with file.open("rb") as source:
                    shutil.copyfileobj(source, copying)
    except OSError as error:
        copies.notes.append(f"{name} cannot be read: {error.strerror}")
