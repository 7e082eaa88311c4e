"""Writer of the exit record, the driver's statement of how its script ended."""

import os

from holdfast.driver.failure_message import Failure
from holdfast.driver_protocol.control_files import EXIT_RECORD_FILE, write_control_file
from holdfast.driver_protocol.exit_record import ExitRecord


def exit_record_of(failure: Failure, *, started: bool) -> ExitRecord:
    return ExitRecord("failed", failure.reason, failure.condition, failure.exception, started, failure.java_status)


class ExitRecordWriter:
    """Writer of the exit record. It writes once, and only in the process that created it, not in forked children."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pid = os.getpid()
        self._written = False

    def write(self, record: ExitRecord) -> None:
        if self._written or os.getpid() != self._pid:
            return
        self._written = True
        write_control_file(self._directory, EXIT_RECORD_FILE, record.to_json())
