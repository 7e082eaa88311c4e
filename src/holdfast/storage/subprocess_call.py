"""Storage calls in a short-lived subprocess, which loads pyarrow so that the caller does not have to.

The request is one line of JSON on standard input. The subprocess writes a heartbeat line while data moves; its last line is
the reply. A subprocess without progress is killed, because pyarrow's calls have no timeout. The subprocess exits at the end of
its standard input, so it does not outlive the caller.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from holdfast.errors import Conflict, HoldfastError, Refused, Unavailable
from holdfast.storage.dispatch import Warn
from holdfast.storage.location import Location
from holdfast.storage.storage_errors import AlreadyClaimed, BlobDamaged, BlobMissing, ForeignCheckpoint, NotRemovable

EXIT_TIMEOUT_S = 5.0
ERRORS = {
    error.__name__: error
    for error in (BlobDamaged, BlobMissing, AlreadyClaimed, ForeignCheckpoint, NotRemovable, Conflict, Refused, Unavailable)
}


def call_in_subprocess(
    location: Location, operation: str, arguments: Mapping[str, Any], warn: Warn, stall_timeout_s: float
) -> Any:
    """Run one operation of `dispatch.OPERATIONS` in a new process and return its result. Raises its error."""
    request = {"location": str(location), "operation": operation, "arguments": dict(arguments)}
    with open(os.memfd_create("stderr"), "rb") as stderr:
        reply = _run(request, stderr, location.display_name, stall_timeout_s)
    for warning in reply.get("notes", ()):
        warn(warning)
    if "error" in reply:
        raise ERRORS.get(reply["error"], Unavailable)(reply["text"])
    return reply.get("value")


def error_name(error: HoldfastError) -> str:
    """Return the name of the most specific class of an error that `ERRORS` contains."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS), Unavailable.__name__)


def _run(request: dict[str, Any], stderr: IO[bytes], display_name: str, stall_timeout_s: float) -> dict[str, Any]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "holdfast.storage.subprocess_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr.fileno(),
        bufsize=0,
        cwd="/",
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        with child.stdin, child.stdout:
            _send(child.stdin, json.dumps(request).encode() + b"\n")
            line = _read_reply(child.stdout, display_name, stall_timeout_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(EXIT_TIMEOUT_S)
    finally:
        child.kill()
        status = child.wait()
    try:
        return dict(json.loads(line))
    except ValueError:
        raise Unavailable(
            f"the subprocess for {display_name} exited with status {status} without a reply ({_last_line_of(stderr)})"
        ) from None


def _send(stream: IO[bytes], request: bytes) -> None:
    """Write the request. A subprocess that has already exited is reported through its missing reply."""
    with contextlib.suppress(BrokenPipeError):
        while request:
            request = request[stream.write(request) :]


def _read_reply(stream: IO[bytes], display_name: str, stall_timeout_s: float) -> bytes:
    """Return the reply: the last line, after the heartbeat lines. Raises Unavailable if nothing arrives for the timeout."""
    received = b""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    last_progress = time.monotonic()
    while True:
        if not poll.poll(max(0.0, last_progress + stall_timeout_s - time.monotonic()) * 1000):
            raise Unavailable(f"{display_name} has not answered for {stall_timeout_s:g} s")
        data = stream.read(1 << 16)
        if not data:
            return received
        last_progress = time.monotonic()
        received = (received + data).rpartition(b".\n")[2]


def _last_line_of(stderr: IO[bytes]) -> str:
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 4096))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no output"
