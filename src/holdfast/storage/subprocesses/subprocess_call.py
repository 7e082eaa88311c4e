"""Storage calls in a subprocess, which loads pyarrow or starts a JVM so that the caller does not have to.

The request is one line of JSON on standard input. The subprocess writes a heartbeat line while data moves, and then the
reply. A subprocess without progress is killed, because pyarrow's calls have no timeout. The subprocess exits at the end of its
standard input, so it does not outlive the caller. With pyarrow, each call starts another subprocess. A subprocess with a JVM
serves further calls for a while, unless one fails (`storage_process`).
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from holdfast.errors import Conflict, HoldfastError, Refused, Unavailable
from holdfast.storage.location import HADOOP_SCHEMES, Location
from holdfast.storage.storage_errors import AlreadyClaimed, BlobDamaged, BlobMissing, ForeignCheckpoint, NotRemovable
from holdfast.storage.subprocesses.dispatch import Warn
from holdfast.storage.subprocesses.storage_process import IDLE_EXIT_STATUS, KEEP, StorageProcess, pool

ERRORS = {
    error.__name__: error
    for error in (BlobDamaged, BlobMissing, AlreadyClaimed, ForeignCheckpoint, NotRemovable, Conflict, Refused, Unavailable)
}
_ENVIRONMENT = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME")
"""Variables on which the JVM of a subprocess depends."""


def call_in_subprocess(
    location: Location, operation: str, arguments: Mapping[str, Any], warn: Warn, stall_timeout_s: float
) -> Any:
    """Run one operation of `dispatch.OPERATIONS` in another process and return its result. Raises its error."""
    request = {"location": str(location), "operation": operation, "arguments": dict(arguments)}
    if location.scheme in HADOOP_SCHEMES:
        reply = _call_in_kept_process(location, request, stall_timeout_s)
    else:
        reply = _call_in_new_process(location, request, stall_timeout_s)
    for warning in reply.get("notes", ()):
        warn(warning)
    if "error" in reply:
        raise ERRORS.get(reply["error"], Unavailable)(reply["text"])
    return reply.get("value")


def error_name(error: HoldfastError) -> str:
    """Return the name of the most specific class of an error that `ERRORS` contains."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS), Unavailable.__name__)


def _call_in_new_process(location: Location, request: dict[str, Any], stall_timeout_s: float) -> dict[str, Any]:
    process = StorageProcess()
    try:
        line = process.call(request, location.display_name, stall_timeout_s)
    except BaseException:
        process.kill()
        raise
    status, last_output = process.end()
    return _parse_reply(line, location, status, last_output)


def _call_in_kept_process(location: Location, request: dict[str, Any], stall_timeout_s: float) -> dict[str, Any]:
    """Use a subprocess of an earlier call if one waits. It stays for the next call unless this one fails."""
    kind = json.dumps([location.scheme, location.authority, *map(os.environ.get, _ENVIRONMENT)])
    while True:
        waiting = pool.take(kind)
        process = waiting or StorageProcess()
        try:
            line = process.call({**request, KEEP: True}, location.display_name, stall_timeout_s)
        except BaseException:
            process.kill()
            raise
        if line.endswith(b"\n") and "error" not in (reply := dict(json.loads(line))):
            pool.put_back(kind, process)
            return reply
        status, last_output = process.end()
        if waiting is None or line or status != IDLE_EXIT_STATUS:
            return _parse_reply(line, location, status, last_output)


def _parse_reply(line: bytes, location: Location, status: int, last_output: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        raise Unavailable(
            f"the subprocess for {location.display_name} exited with status {status} without a reply ({last_output})"
        ) from None
