"""Read-only queries in a session of their own."""

from typing import TypeVar

from holdfast.client.connection.target import Target
from holdfast.zk.session.direct_reader import DirectReadFailed, Query, read_directly

Result = TypeVar("Result")


def read_with_retry(target: Target, query: Query[Result]) -> Result:
    """Run a query in a new session. If it fails, retry it for `CONNECT_S` seconds; then raise Unavailable."""
    try:
        return read_directly(target.zookeeper, query)
    except DirectReadFailed:
        from holdfast.client.connection.session import read_over_kazoo  # expensive import, needed only after a failure

        return read_over_kazoo(target, query)
