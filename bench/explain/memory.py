"""Peak memory of a process tree. Shared pages count once (PSS)."""

import contextlib
import threading
from types import TracebackType

import psutil

SAMPLE_INTERVAL_S = 0.3


class PeakMemory:
    """Samples the memory of a process and its descendants until the end of the block."""

    def __init__(self, pid: int) -> None:
        self.mb = 0.0
        self._root = psutil.Process(pid)
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopped.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            self.mb = max(self.mb, self._now_mb())

    def _now_mb(self) -> float:
        total = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (self._root, *self._root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    total += process.memory_full_info().pss
        return total / 1e6
