"""Failsafe promises for one attempt, which the agent requests from all nodes and publishes in the attempt's directory."""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.model.identifiers import NodeId
from holdfast.runner.attempt_layout import GRANTED_PROMISES, PROMISES_WANTED


class GrantedPromises:
    """Implementation of `runner.interfaces.FailsafePeers` by two files in the attempt's directory."""

    def __init__(self, directory: Path, *, boot: str) -> None:
        self._wanted = directory / PROMISES_WANTED
        self._granted = directory / GRANTED_PROMISES
        self._boot = boot
        self._changed_at = -1
        self._until: dict[NodeId, float] = {}
        """End of each node's newest promise. A granted promise stays valid, even if the agent that requested it is gone."""

    def request_promises(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: the present promises run out unless there is room again
            self._wanted.touch(mode=0o600)

    def promised_until(self, nodes: Iterable[NodeId]) -> float:
        for node, until in self._read_changed().items():
            self._until[node] = max(until, self._until.get(node, until))
        return min((self._until.get(node, float("-inf")) for node in nodes), default=float("-inf"))

    def _read_changed(self) -> Mapping[NodeId, float]:
        """Return the end of each node's promise, or an empty mapping if the file is unchanged or unreadable."""
        try:
            changed_at = self._granted.stat().st_mtime_ns
            if changed_at == self._changed_at:
                return {}
            fields = json.loads(self._granted.read_bytes())
            if fields["boot"] != self._boot:
                return {}  # times of an earlier boot
            until = {NodeId(node): float(each) for node, each in fields["nodes"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}
        self._changed_at = changed_at
        return until


def write_granted_promises(directory: str, *, boot: str, nodes: Mapping[NodeId, float]) -> None:
    """Replace the attempt's file atomically. No fsync: after a power failure the attempt is over. Raises OSError.

    The agent calls this for each attempt at each heartbeat, so it avoids the cost of pathlib.
    """
    temporary = f"{directory}/.{GRANTED_PROMISES}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps({"boot": boot, "nodes": nodes}).encode())
    finally:
        os.close(descriptor)
    os.replace(temporary, f"{directory}/{GRANTED_PROMISES}")
