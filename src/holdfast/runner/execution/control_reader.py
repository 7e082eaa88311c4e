"""Reader of the control files that a driver and its Kafka monitor write. User code can write there too: nothing is trusted."""

import json
from pathlib import Path

from holdfast.driver_protocol.application_status import ApplicationStatus, parse_application_status
from holdfast.driver_protocol.control_files import (
    APPLICATION_FILE,
    CLAIM_REQUESTS_FILE,
    EXIT_RECORD_FILE,
    KAFKA_STATUS_FILE,
    PROGRESS_FILE,
    READY_FILE,
    STARTED_QUERIES_FILE,
    read_control_file,
)
from holdfast.driver_protocol.exit_record import ExitRecord, parse_exit_record
from holdfast.driver_protocol.kafka_status import KafkaStatus, parse_kafka_status
from holdfast.driver_protocol.location_claim import ClaimRequest, parse_claim_requests
from holdfast.driver_protocol.progress_record import limit_progress_size, parse_progress, parse_query_batches
from holdfast.driver_protocol.query_record import NOTE_MAX, StartedQuery, parse_started_queries
from holdfast.model.job import Progress, SparkApplication

OFFSETS_BYTES_MAX = 24_000
LAG_BYTES_MAX = 24_000
"""Sizes of offsets and lag in the lease. Each heartbeat writes both, and a ZooKeeper server keeps the last 500 writes in its
memory, about two and a half times as large as they are."""


class ControlReader:
    """Reader of one attempt's control directory. Missing and malformed files count as empty; nothing here raises."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def exit_record(self) -> ExitRecord | None:
        return parse_exit_record(read_control_file(self.directory, EXIT_RECORD_FILE))

    def is_ready(self) -> bool:
        """Return True if the driver has announced that the job has started, or has reported the progress of a query."""
        return any(read_control_file(self.directory, name) is not None for name in (READY_FILE, PROGRESS_FILE))

    def started_queries(self) -> list[StartedQuery]:
        return parse_started_queries(read_control_file(self.directory, STARTED_QUERIES_FILE) or {})

    def batch_s(self) -> float:
        """Return the longest duration, in seconds, that a batch of a started query lasts because of its trigger."""
        return max((query.batch_s for query in self.started_queries()), default=0.0)

    def query_note(self) -> str:
        """Return the driver's sentences for operators about its queries, or an empty string."""
        return "; ".join(dict.fromkeys(query.note for query in self.started_queries() if query.note))[:NOTE_MAX]

    def claim_requests(self) -> list[ClaimRequest]:
        return parse_claim_requests(read_control_file(self.directory, CLAIM_REQUESTS_FILE) or {})

    def query_batches(self) -> dict[str, int]:
        """Return the last completed batch of each query, by the query's label."""
        return parse_query_batches(read_control_file(self.directory, PROGRESS_FILE) or {})

    def progress(self) -> Progress | None:
        fields = read_control_file(self.directory, PROGRESS_FILE)
        record = parse_progress(fields) if fields is not None else None
        if record is None:
            return None
        record = limit_progress_size(record, OFFSETS_BYTES_MAX)
        return Progress(
            batch_id=record.batch_id,
            rows_per_second=record.rows_per_second,
            offsets=tuple(json.dumps(offset) for offset in record.offsets),
            offset_queries=record.offset_queries,
            lag=_limit_lag([json.dumps(lag) for lag in self._kafka_status().lag]),
        )

    def application_status(self) -> ApplicationStatus:
        return parse_application_status(read_control_file(self.directory, APPLICATION_FILE) or {})

    def application(self) -> SparkApplication | None:
        """Return the application for the lease, or None for a local master and before it is known."""
        status = self.application_status()
        if not status.id:
            return None
        return SparkApplication(status.id, status.state, status.executors, status.lost, status.decommissioned, status.last_loss)

    def kafka_note(self) -> str:
        """Return the Kafka monitor's sentence for operators, or an empty string."""
        return self._kafka_status().note

    def _kafka_status(self) -> KafkaStatus:
        return parse_kafka_status(read_control_file(self.directory, KAFKA_STATUS_FILE) or {})


def _limit_lag(lag: list[str]) -> tuple[str, ...]:
    """Return the lag of the sources without the largest ones, so that the rest has at most LAG_BYTES_MAX bytes."""
    while sum(map(len, lag)) > LAG_BYTES_MAX:
        lag.remove(max(lag, key=len))
    return tuple(lag)
