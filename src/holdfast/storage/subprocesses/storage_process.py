"""One subprocess for storage calls, and the pool of those that wait for the next call.

A subprocess that has started a JVM takes seconds to start, so it serves further calls. It exits by itself when no call has come
for a while, with a distinct status: a call that arrives too late was certainly not executed.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from typing import IO, Any

from holdfast.errors import Unavailable

EXIT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 20.0
"""Time without a call after which a subprocess that may serve several exits."""
IDLE_EXIT_STATUS = 75
KEEP = "keep"
"""Field of a request: the subprocess waits for another request after its reply."""
HEARTBEAT = b".\n"


class StorageProcess:
    """Subprocess that executes one call after the other."""

    def __init__(self) -> None:
        self._stderr: IO[bytes] = open(os.memfd_create("stderr"), "rb")  # noqa: SIM115 -- closed by `end`
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.storage.subprocesses.subprocess_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr.fileno(),
            bufsize=0,
            cwd="/",
        )

    def call(self, request: dict[str, Any], display_name: str, stall_timeout_s: float) -> bytes:
        """Return the line of the reply; empty or incomplete if the process has ended. Raises Unavailable if it stalls."""
        self._send(json.dumps(request).encode() + b"\n")
        return self._read_reply(display_name, stall_timeout_s)

    def end(self) -> tuple[int, str]:
        """Wait briefly for the exit of a process that has finished, then kill it. Return its status and its last output."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_TIMEOUT_S)
        return self.kill()

    def kill(self) -> tuple[int, str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        status = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        with self._stderr:
            return status, _last_line_of(self._stderr)

    def _send(self, request: bytes) -> None:
        """Write the request. A subprocess that has already exited is reported through its missing reply."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            while request:
                request = request[self._process.stdin.write(request) :]

    def _read_reply(self, display_name: str, stall_timeout_s: float) -> bytes:
        """Return the first line that is no heartbeat. Raises Unavailable if nothing arrives for the timeout."""
        assert self._process.stdout is not None
        received = b""
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        last_progress = time.monotonic()
        while not received.endswith(b"\n"):
            if not poll.poll(max(0.0, last_progress + stall_timeout_s - time.monotonic()) * 1000):
                raise Unavailable(f"{display_name} has not answered for {stall_timeout_s:g} s")
            data = self._process.stdout.read(1 << 16)
            if not data:
                return received
            last_progress = time.monotonic()
            received = (received + data).rpartition(HEARTBEAT)[2]
        return received


class ProcessPool:
    """Subprocesses that wait for the next call of the same kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[StorageProcess]] = {}

    def take(self, kind: str) -> StorageProcess | None:
        with self._lock:
            waiting = self._waiting.get(kind)
            return waiting.pop() if waiting else None

    def put_back(self, kind: str, process: StorageProcess) -> None:
        with self._lock:
            self._waiting.setdefault(kind, []).append(process)

    def kill_all(self) -> None:
        with self._lock:
            processes = [process for waiting in self._waiting.values() for process in waiting]
            self._waiting.clear()
        for process in processes:
            process.kill()


pool = ProcessPool()
atexit.register(pool.kill_all)


def _last_line_of(stderr: IO[bytes]) -> str:
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 4096))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no output"
