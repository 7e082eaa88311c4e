"""Gate for queries whose checkpoint location the script names: a query starts only after the runner has claimed its location.

Locations in the job's own checkpoint root need no request: the runner has claimed the root before it started this driver.
"""

import os
import posixpath
import re
import threading
import time

from holdfast.driver.start_refused import StartRefused
from holdfast.driver.stderr_log import log_line
from holdfast.driver.stop_request import StopRequest
from holdfast.driver_protocol.control_files import (
    CLAIM_ANSWERS_FILE,
    CLAIM_REQUESTS_FILE,
    read_control_file,
    write_control_file,
)
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.driver_protocol.exit_record import CHECKPOINT_CLAIMED, ExitRecord
from holdfast.driver_protocol.location_claim import (
    LOCATION_MAX,
    REQUESTS_MAX,
    ClaimAnswer,
    ClaimRequest,
    claim_requests_to_json,
    parse_claim_answers,
)
from holdfast.driver_protocol.untrusted_text import is_printable_text

POLL_S = 0.1
LOG_WAIT_AFTER_S = 5.0
"""Delay before the log mentions that a query waits for the runner."""
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)


def normalize_location(location: str, *, default_filesystem: str = "", directory: str = "/") -> str:
    """Return a location with its file system, without `.` and `..`, as Hadoop resolves it. A local one becomes a plain path.

    `default_filesystem` is Hadoop's `fs.defaultFS`; `directory`, the working directory of the driver.
    """
    uri = _URI.fullmatch(location)
    if uri is None and default_filesystem and not default_filesystem.startswith("file:"):
        return normalize_location(default_filesystem.rstrip("/") + location) if location.startswith("/") else location
    if uri is None or uri["scheme"] == "file":
        return posixpath.normpath("/" + posixpath.join(directory, uri["path"] if uri else location).lstrip("/"))
    path = posixpath.normpath("/" + uri["path"].lstrip("/"))
    return f"{uri['scheme']}://{uri['authority'] or ''}{path}".rstrip("/")


class LocationGate:
    """Client of the runner. Without a runner that answers, every query passes."""

    def __init__(self, environment: DriverEnvironment, stop: StopRequest) -> None:
        self._directory = environment.control_directory
        self._root = normalize_location(environment.checkpoint) if environment.checkpoint else ""
        self._open = not (environment.claim_locations and self._directory)
        self._stop = stop
        self._lock = threading.Lock()
        self._last_number = 0
        self._waiting: dict[int, ClaimRequest] = {}

    def wait_for_permission(self, location: str | None, label: str, *, default_filesystem: str = "") -> None:
        """Block until the query may start. Raises StartRefused, or SystemExit if the job is asked to stop meanwhile."""
        if self._open or not location:
            return
        place = normalize_location(location, default_filesystem=default_filesystem, directory=os.getcwd())
        if place == self._root or place.startswith(f"{self._root}/"):
            return
        if not is_printable_text(place, LOCATION_MAX):
            log_line(f"the checkpoint {place!r} of the query {label} is not protected against use by another job: rename it")
            return
        request = self._add_request(place)
        try:
            answer = self._wait_for_answer(request, label)
        finally:
            with self._lock:
                del self._waiting[request.number]
        if answer.refusal:
            raise StartRefused(ExitRecord("failed", answer.refusal, condition=CHECKPOINT_CLAIMED))

    def _add_request(self, location: str) -> ClaimRequest:
        with self._lock:
            self._last_number += 1
            request = self._waiting[self._last_number] = ClaimRequest(self._last_number, location)
            self._write_requests()
        return request

    def _write_requests(self) -> None:
        oldest = list(self._waiting.values())[:REQUESTS_MAX]
        write_control_file(self._directory, CLAIM_REQUESTS_FILE, claim_requests_to_json(oldest))

    def _wait_for_answer(self, request: ClaimRequest, label: str) -> ClaimAnswer:
        log_at = time.monotonic() + LOG_WAIT_AFTER_S
        while (answer := self._find_answer(request)) is None:
            if self._stop.requested:
                self._stop.seen_by_script = True
                raise SystemExit(0)
            if time.monotonic() >= log_at:
                log_at = time.monotonic() + LOG_WAIT_AFTER_S
                log_line(f"the query {label} waits until its checkpoint {request.location} is claimed for this job")
                with self._lock:
                    self._write_requests()  # the first write may have failed, or more requests waited than fit
            time.sleep(POLL_S)
        return answer

    def _find_answer(self, request: ClaimRequest) -> ClaimAnswer | None:
        return parse_claim_answers(read_control_file(self._directory, CLAIM_ANSWERS_FILE) or {}).get(request.number)
