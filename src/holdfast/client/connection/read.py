"""Read-only queries in a session of their own."""

import time
from typing import TypeVar

from holdfast.client.connection.target import Target
from holdfast.zk.session.direct_reader import ANSWER_S, DirectReadFailed, Query, read_directly

Result = TypeVar("Result")


def read_with_retry(target: Target, query: Query[Result]) -> Result:
    """Run a query in a new session. If it fails, retry it; raise Unavailable after `CONNECT_S` seconds in total."""
    started = time.monotonic()
    try:
        return read_directly(target.zookeeper, query)
    except DirectReadFailed:
        waited_s = min(time.monotonic() - started, ANSWER_S)
        from holdfast.client.connection.session import CONNECT_S, read_over_kazoo  # expensive, needed only after a failure

        return read_over_kazoo(target, query, CONNECT_S - waited_s)
