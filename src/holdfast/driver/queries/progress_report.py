"""Progress of the queries, for the runner."""

import threading
from dataclasses import dataclass, replace
from typing import Any

from holdfast.driver.queries.spark_query import SparkQuery
from holdfast.driver_protocol.control_files import FILE_BYTES_MAX, PROGRESS_FILE, write_control_file
from holdfast.driver_protocol.progress_record import ProgressRecord, QueryProgress, limit_progress_size


@dataclass(slots=True)
class _QueryProgress:
    name: str
    batch_id: int | None = None
    rows_per_second: float | None = None
    offsets: tuple[Any, ...] = ()
    final: bool = False


class ProgressReporter:
    """Writer of `control/progress.json`, which is replaced whenever the progress changes.

    `batch_id` is that of the oldest active query. `rows_per_second` is the sum over all active queries, or over ended ones if
    none is active. `offsets` lists every source of every query.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._progress_by_query: dict[SparkQuery, _QueryProgress] = {}
        self._written: ProgressRecord | None = None
        self._lock = threading.Lock()

    def report(self, live: list[SparkQuery], ended: list[SparkQuery]) -> None:
        """Write the progress of active queries and of recently ended ones, both in order of start."""
        self._progress_by_query = {query: self._query_progress(query, ended=query in ended) for query in [*ended, *live]}
        first = next((self._progress_by_query[query] for query in [*live, *ended]), None)
        if first is None:
            return
        reports = self._progress_by_query.values()
        counted = [self._progress_by_query[query].rows_per_second for query in live or ended]
        rates = [rate for rate in counted if rate is not None]
        summary = ProgressRecord(
            batch_id=first.batch_id,
            rows_per_second=round(sum(rates), 3) if rates else None,
            offsets=tuple(offset for report in reports for offset in report.offsets),
            offset_queries=tuple(report.name for report in reports for _ in report.offsets),
            queries=tuple(QueryProgress(report.name, report.batch_id, report.rows_per_second) for report in reports),
        )
        self._write(summary)

    def withdraw_rates(self) -> None:
        """Remove the rates from the file, because Spark has not answered for some time. The next report restores them."""
        if (written := self._written) is not None:
            queries = tuple(replace(query, rows_per_second=None) for query in written.queries)
            self._write(replace(written, rows_per_second=None, queries=queries))

    def _write(self, summary: ProgressRecord) -> None:
        with self._lock:
            if summary != self._written:
                limited = limit_progress_size(summary, FILE_BYTES_MAX)
                write_control_file(self._directory, PROGRESS_FILE, limited.to_json())
                self._written = summary

    def _query_progress(self, query: SparkQuery, *, ended: bool) -> _QueryProgress:
        report = self._progress_by_query.get(query) or _QueryProgress(query.label)
        if report.final:
            return report
        progress = query.progress()
        report.final = ended
        if progress is None:
            return report
        # A trigger that found no data reports the id of the next batch and no rate.
        idle = "addBatch" not in progress.get("durationMs", {})
        batch_id = progress.get("batchId", 0) - idle
        report.batch_id = batch_id if batch_id >= 0 else None
        sources = progress.get("sources", [])
        if not idle and sum(source.get("numInputRows", 0) for source in sources):
            report.rows_per_second = round(sum(source.get("processedRowsPerSecond", 0.0) for source in sources), 3)
        report.offsets = tuple(source.get("endOffset") for source in sources)
        return report
