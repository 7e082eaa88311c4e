"""Wrapper of one streaming query: the interface that the monitor thread and the hooks use."""

import abc
import inspect
from typing import Any

from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger


class SparkQuery(abc.ABC):
    outlives_driver = False
    """True if the query keeps running after the death of this process, because a server outside of it runs the query."""

    def __init__(self, query: Any, trigger: Trigger = MICRO_BATCH) -> None:
        self._query = query
        self._trigger = trigger
        self.label = str(query.name or query.id)
        self.number = 0
        """Position in the order of starts, from 1."""
        self.stopped_abruptly = False
        """True if the query was stopped without waiting for the end of its batch."""

    @abc.abstractmethod
    def has_ended(self) -> bool: ...

    @abc.abstractmethod
    def has_failed(self) -> bool: ...

    @abc.abstractmethod
    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the query, at most `timeout_s`. Raises the error of a failed query."""

    @abc.abstractmethod
    def progress(self) -> dict[str, Any] | None:
        """Return Spark's last progress report of the query, or None before the first one."""

    @abc.abstractmethod
    def request_stop(self, *, urgent: bool = False) -> None:
        """Ask the query to stop after its batch, or at once if `urgent`.

        Call it repeatedly until the query has ended. Does not block for long.
        """

    def stop_if_idle(self) -> None:  # noqa: B027 -- most queries need no second step
        """Stop a query that has received the request and sleeps until its next trigger. Blocks until it has ended."""


def call_original(query: Any, method: str, *args: Any) -> Any:
    """Call the original PySpark method or property of a query, without the hook that the driver has put around it."""
    attribute: Any = inspect.getattr_static(type(query), method, None)
    if attribute is None:
        return getattr(query, method)
    function: Any = attribute.fget if isinstance(attribute, property) else attribute
    return inspect.unwrap(function)(query, *args)
