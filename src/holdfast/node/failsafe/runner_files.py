"""Files that the agent and the runners of its node exchange about failsafe promises."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.model.identifiers import NodeId
from holdfast.node.attempts import AttemptId
from holdfast.runner.attempt_layout import PROMISES_WANTED
from holdfast.runner.granted_promises import write_granted_promises


class RunnerFiles:
    """Implementation of `node.failsafe.exchange.Runners` by files in the directories of the attempts."""

    def __init__(self, root: Path, list_open: Callable[[], list[AttemptId]], *, boot: str) -> None:
        self._root = root
        self._list_open = list_open
        self._boot = boot

    def read_requests(self) -> dict[AttemptId, int]:
        requests: dict[AttemptId, int] = {}
        for attempt_id in self._list_open():
            with contextlib.suppress(OSError):  # a runner of the previous release requests its promises by HTTP
                requests[attempt_id] = os.stat(f"{self._directory(attempt_id)}/{PROMISES_WANTED}").st_mtime_ns
        return requests

    async def publish(self, granted: Mapping[AttemptId, Mapping[NodeId, float]]) -> None:
        await asyncio.to_thread(self._write, {attempt_id: dict(nodes) for attempt_id, nodes in granted.items()})

    def _write(self, granted: Mapping[AttemptId, Mapping[NodeId, float]]) -> None:
        for attempt_id, nodes in granted.items():
            with contextlib.suppress(OSError):  # a full disk: the next exchange tries again
                write_granted_promises(self._directory(attempt_id), boot=self._boot, nodes=nodes)

    def _directory(self, attempt_id: AttemptId) -> str:
        return f"{self._root}/{attempt_id.job}/{attempt_id.attempt}"  # as `attempt_directory`, without the cost of pathlib
