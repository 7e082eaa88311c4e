"""PySpark hooks for a graceful stop: they determine how a script sees its queries while the job stops."""

import functools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.query_wrapper import wrap_query
from holdfast.driver.stop_request import StopRequest


def record_script_waits(module: ModuleType, queries: ActiveQueries) -> None:
    """Patch the query module of classic Spark or of Connect to record that the script waits for a query itself."""
    for owner, names in (
        (module.StreamingQuery, ("awaitTermination", "processAllAvailable", "exception")),
        (module.StreamingQueryManager, ("awaitAnyTermination",)),
    ):
        for name in names:
            setattr(owner, name, _record_wait(getattr(owner, name), queries))


def report_active_until_batch_ends(module: ModuleType, stop: StopRequest) -> None:
    """Patch `isActive` and `awaitTermination`, of classic Spark or of Connect, to count a stopping query as active.

    Spark reports a stream as inactive immediately after a stop request, and not only after its last batch. A script that polls
    would end within that batch.
    """
    owner = module.StreamingQuery
    original_is_active = owner.isActive.fget
    original_await = owner.awaitTermination

    @functools.wraps(original_is_active)
    def is_active(self: Any) -> bool:
        return bool(original_is_active(self)) or (stop.requested and not wrap_query(self).has_ended())

    @functools.wraps(original_await)
    def await_termination(self: Any, timeout: float | None = None) -> bool | None:
        began = time.monotonic()
        ended: bool | None = original_await(self, timeout)
        while timeout is not None and ended and stop.requested and not wrap_query(self).has_ended():
            if time.monotonic() - began >= timeout:
                return False
            time.sleep(min(0.05, timeout))
            ended = original_await(self, 0.001)
        return ended

    owner.isActive = property(is_active, doc=owner.isActive.__doc__)
    owner.awaitTermination = await_termination


def drain_before_context_stops(module: ModuleType, queries: ActiveQueries, stop: StopRequest) -> None:
    """Patch `SparkContext.stop` to wait for the last batches after a stop request.

    Many scripts stop Spark when the first of their queries has ended, which would interrupt the batches of the others.
    """
    _drain_before_stop(module.SparkContext, queries, stop)


def drain_before_session_stops(module: ModuleType, queries: ActiveQueries, stop: StopRequest) -> None:
    """Patch `stop` of Connect's SparkSession, which stops all queries of the session, in the same way."""
    _drain_before_stop(module.SparkSession, queries, stop)


def _drain_before_stop(owner: Any, queries: ActiveQueries, stop: StopRequest) -> None:
    original_stop = owner.stop

    @functools.wraps(original_stop)
    def stop_spark(self: Any) -> None:
        if stop.requested:
            queries.drain()
        original_stop(self)

    owner.stop = stop_spark


def _record_wait(method: Callable[..., Any], queries: ActiveQueries) -> Callable[..., Any]:
    @functools.wraps(method)
    def recording(*args: Any, **kwargs: Any) -> Any:
        queries.awaited_by_script = True
        return method(*args, **kwargs)

    return recording
