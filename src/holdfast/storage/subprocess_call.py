"""A call in a process of its own, which may load what it likes and is gone afterwards.

The request goes in as one line of JSON; lines come back while bytes move, and the last one is the answer. A process that falls
silent is killed: pyarrow's calls have no deadline. The other way round, the process ends when its standard input does, so
that it does not outlive whoever asked.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import IO, Any

from holdfast.errors import Conflict, HoldfastError, Refused, Unavailable
from holdfast.storage.dispatch import Note
from holdfast.storage.location import Location
from holdfast.storage.storage_errors import BlobDamaged, BlobMissing, Claimed, ForeignCheckpoint

END_S = 5.0
ERRORS = {
    error.__name__: error for error in (BlobDamaged, BlobMissing, Claimed, ForeignCheckpoint, Conflict, Refused, Unavailable)
}


def call_apart(location: Location, folder: str, note: Note, silence_s: float, method: str, **arguments: Any) -> Any:
    request = {"location": str(location), "folder": folder, "method": method, "arguments": arguments}
    complaints = os.memfd_create("complaints")
    with open(complaints, "rb") as said:
        answer = _answer(request, said, location.shown, silence_s)
    for sentence in answer.get("notes", ()):
        note(sentence)
    if "error" in answer:
        raise ERRORS.get(answer["error"], Unavailable)(answer["text"])
    return answer.get("value")


def name_of(error: HoldfastError) -> str:
    """The most exact error that the other side knows as well."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS), Unavailable.__name__)


def _answer(request: dict[str, Any], complaints: IO[bytes], shown: str, silence_s: float) -> dict[str, Any]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "holdfast.storage.subprocess_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints.fileno(),
        bufsize=0,
        cwd="/",
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        with child.stdin, child.stdout:
            _send(child.stdin, json.dumps(request).encode() + b"\n")
            line = _last_line(child.stdout, shown, silence_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
    finally:
        child.kill()
        status = child.wait()
    try:
        answer = json.loads(line)
    except ValueError:
        raise Unavailable(f"the process that talks to {shown} ended with {status} ({_last_words(complaints)})") from None
    return dict(answer)


def _send(stream: IO[bytes], request: bytes) -> None:
    """One that has ended already shows that by its answer."""
    with contextlib.suppress(BrokenPipeError):
        while request:
            request = request[stream.write(request) :]


def _last_line(stream: IO[bytes], shown: str, silence_s: float) -> bytes:
    """Everything but the last line only says that it is alive."""
    received = b""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    heard = time.monotonic()
    while True:
        if not poll.poll(max(0.0, heard + silence_s - time.monotonic()) * 1000):
            raise Unavailable(f"{shown} has not answered for {silence_s:g} s")
        data = stream.read(1 << 16)
        if not data:
            return received
        heard = time.monotonic()
        received = (received + data).rpartition(b".\n")[2]


def _last_words(complaints: IO[bytes]) -> str:
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - 4096))
    words = complaints.read().decode(errors="replace").strip().splitlines()
    return words[-1][:300] if words else "it said nothing"
