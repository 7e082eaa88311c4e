"""Files in the control directory of an attempt, through which the runner, the driver and the Kafka monitor communicate.

Each file is replaced atomically: a reader sees the previous content or the new content, never a part. The driver runs user
code, which can write to this directory too. So readers limit the size and treat unexpected content as missing.

The checkpoint has a directory `_holdfast` with files of its own, which outlive the attempt. `storage.claim_book` owns these.
"""

import contextlib
import json
import os
from typing import Any

STOP_REQUEST_FILE = "stop"
"""Request to stop at the next batch boundary. Writer: runner. Reader: driver. Format: empty; the file's existence counts."""
EXIT_RECORD_FILE = "end.json"
"""Result of the script. Writer: driver, once, at its end. Reader: runner. Format: `exit_record.ExitRecord`."""
STARTED_QUERIES_FILE = "queries.json"
"""Queries that this driver has started. Writer: driver, at each start. Reader: runner. Format: `query_record`.

The runner copies them to the checkpoint's own `queries.json`, which has another format (`checkpoint.known_queries`)."""
PROGRESS_FILE = "progress.json"
"""Progress of the queries. Writer: driver, at each change. Reader: runner. Format: `progress_record.ProgressRecord`."""
READY_FILE = "ready.json"
"""Announcement that the job has started: its driver has Spark, or runs without it. Writer: driver, once. Reader: runner.

Format: an object with a reason for people; the file's existence counts."""
KAFKA_STATUS_FILE = "kafka.json"
"""Kafka problems and lag. Writer: Kafka monitor, at each change. Reader: runner. Format: `kafka_status.KafkaStatus`.

The checkpoint's own `kafka.json` is another file: the last known state of the topics (`kafka.check.last_known`)."""
APPLICATION_FILE = "application.json"
"""Executors of the Spark application. Writer: driver, at each change. Reader: runner. Format: `application_status`."""
CLAIM_REQUESTS_FILE = "claim-requests.json"
"""Checkpoint locations that queries wait for. Writer: driver, before such a start. Reader: runner. Format: `location_claim`."""
CLAIM_ANSWERS_FILE = "claim-answers.json"
"""Permission or refusal for each request. Writer: runner. Reader: driver. Format: `location_claim`."""

FILE_BYTES_MAX = 200_000


def write_control_file(directory: str, name: str, content: dict[str, Any]) -> bool:
    """Replace a control file. Return False if `directory` is empty or the write failed: that must not stop a job."""
    if not directory:
        return False
    path = os.path.join(directory, name)
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            # Text from Java may contain lone surrogates. JSON escapes them; UTF-8 cannot encode them.
            json.dump(content, file)
        os.replace(f"{path}.new", path)
    except OSError:
        return False
    return True


def read_control_file(directory: str | os.PathLike[str], name: str) -> dict[str, Any] | None:
    """Return the JSON object in a control file, or None if the file is missing, too large or anything else."""
    try:
        with open(os.path.join(directory, name), "rb") as file:
            fields = json.loads(file.read(FILE_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def request_stop(directory: str | os.PathLike[str]) -> None:
    """Ask the driver to stop at the next batch boundary. Errors are ignored: the runner sends SIGTERM later anyway."""
    with contextlib.suppress(OSError):
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, STOP_REQUEST_FILE), "a"):
            pass


def is_stop_requested(directory: str) -> bool:
    return bool(directory) and os.path.exists(os.path.join(directory, STOP_REQUEST_FILE))
