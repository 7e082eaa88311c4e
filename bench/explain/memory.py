"""What a tree of processes has in memory at most. What several of them share counts once."""

import contextlib
import threading
from types import TracebackType

import psutil

LOOK_EVERY_S = 0.3


class Peak:
    """While it is open, of a process and all that descend from it."""

    def __init__(self, pid: int) -> None:
        self.mb = 0.0
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peak":
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.mb = max(self.mb, self._now_mb())

    def _now_mb(self) -> float:
        total = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (self._root, *self._root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    total += process.memory_full_info().pss
        return total / 1e6
