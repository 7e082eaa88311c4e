"""How far the queries are, for the runner to read."""

from dataclasses import dataclass
from typing import Any

from holdfast.driver.spark_query import Query
from holdfast.driver_protocol import control_files


@dataclass(slots=True)
class _Account:
    name: str
    batch_id: int | None = None
    rows_per_second: float | None = None
    offsets: tuple[Any, ...] = ()
    final: bool = False


class Progress:
    """`control/progress.json`, written anew when something has changed.

    The batch is that of the query that was started first among those that live; rows per second are summed up, and offsets are
    those of every source of every query.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._accounts: dict[Query, _Account] = {}
        self._written: dict[str, Any] | None = None

    def report(self, live: list[Query], ended: list[Query]) -> None:
        """`ended` are those that belong to the picture still, in the order in which they were started, as the others."""
        self._accounts = {query: self._account(query, ended=query in ended) for query in [*ended, *live]}
        first = next((self._accounts[query] for query in [*live, *ended]), None)
        if first is None:
            return
        accounts = self._accounts.values()
        rates = [account.rows_per_second for account in accounts if account.rows_per_second is not None]
        summary = {
            "batch_id": first.batch_id,
            "rows_per_second": round(sum(rates), 3) if rates else None,
            "offsets": [offset for account in accounts for offset in account.offsets],
            "queries": [
                {"name": account.name, "batch_id": account.batch_id, "rows_per_second": account.rows_per_second}
                for account in accounts
            ],
        }
        if summary != self._written:
            control_files.write(self._directory, "progress.json", summary)
            self._written = summary

    def _account(self, query: Query, *, ended: bool) -> _Account:
        account = self._accounts.get(query) or _Account(query.label)
        if account.final:
            return account
        progress = query.progress()
        account.final = ended
        if progress is None:
            return account
        # A trigger that found no data reports the batch that would be next, and no speed.
        idle = "addBatch" not in progress.get("durationMs", {})
        batch_id = progress.get("batchId", 0) - idle
        account.batch_id = batch_id if batch_id >= 0 else None
        sources = progress.get("sources", [])
        if not idle and sum(source.get("numInputRows", 0) for source in sources):
            account.rows_per_second = round(sum(source.get("processedRowsPerSecond", 0.0) for source in sources), 3)
        account.offsets = tuple(source.get("endOffset") for source in sources)
        return account
