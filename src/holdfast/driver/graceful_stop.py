"""That a job is to stop: who asked, and what a script sees of its queries meanwhile."""

import functools
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holdfast.driver import spark_query as one
from holdfast.driver.active_queries import Queries
from holdfast.driver_protocol.environment import Environment


class Stop:
    """Asked for by a file in the control directory, or by SIGTERM. It cannot be taken back."""

    def __init__(self, control: str) -> None:
        self._file = os.path.join(control, "stop") if control else None
        self._asked = False
        self.honoured = False
        """Whether a query was told."""
        self.abrupt = False
        """Whether one was stopped within a batch."""
        self.seen = False
        """Whether the script has looked, and knows."""

    @property
    def asked(self) -> bool:
        if not self._asked and self._file is not None:
            self._asked = os.path.exists(self._file)
        return self._asked

    def ask(self) -> None:
        self._asked = True


@functools.cache
def of_this_process() -> Stop:
    return Stop(Environment.read().control)


def notice_waiting(module: ModuleType, queries: Queries) -> None:
    """Take note when the script waits for a query itself. For classic Spark's module and for Connect's."""
    for owner, names in (
        (module.StreamingQuery, ("awaitTermination", "processAllAvailable", "exception")),
        (module.StreamingQueryManager, ("awaitAnyTermination",)),
    ):
        for name in names:
            setattr(owner, name, _noticed(getattr(owner, name), queries))


def tell_the_truth(module: ModuleType, stop: Stop) -> None:
    """Spark calls a stream inactive as soon as it is told to stop. A script that looks would end within the last batch."""
    owner = module.StreamingQuery
    was_active = owner.isActive.fget
    was_awaited = owner.awaitTermination

    def is_active(self: Any) -> bool:
        return bool(was_active(self)) or (stop.asked and not one.of(self).ended())

    @functools.wraps(was_awaited)
    def await_termination(self: Any, timeout: float | None = None) -> bool | None:
        began = time.monotonic()
        ended: bool | None = was_awaited(self, timeout)
        while timeout is not None and ended and stop.asked and not one.of(self).ended():
            if time.monotonic() - began >= timeout:
                return False
            time.sleep(min(0.05, timeout))
            ended = was_awaited(self, 0.001)
        return ended

    owner.isActive = property(is_active, doc=owner.isActive.__doc__)
    owner.awaitTermination = await_termination


def let_queries_settle(module: ModuleType, queries: Queries, stop: Stop) -> None:
    """Many a script stops Spark when the first of its queries has ended. If all are about to, that would hit last batches."""
    was_stopped = module.SparkContext.stop

    @functools.wraps(was_stopped)
    def stop_spark(self: Any) -> None:
        if stop.asked:
            queries.settle()
        was_stopped(self)

    module.SparkContext.stop = stop_spark


def _noticed(method: Callable[..., Any], queries: Queries) -> Callable[..., Any]:
    @functools.wraps(method)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        queries.awaited = True
        return method(*args, **kwargs)

    return noticed
