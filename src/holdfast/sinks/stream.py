"""What Spark and the runner say of a batch. The only module here that reaches into a stream."""

import hashlib
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused, Unavailable
from holdfast.job.environment import Environment
from holdfast.sinks.hadoop import Folder
from holdfast.sinks.ledger import Batch, Owner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY = "sql.streaming.queryId"


def batch_of(frame: "DataFrame", batch_id: int) -> Batch:
    session: Any = frame.sparkSession
    if not hasattr(session, "_jsparkSession"):
        raise Refused("the sinks of Holdfast need a Spark session of the driver's own: with Spark Connect they do not work")
    query = session.sparkContext.getLocalProperty(_QUERY)
    if not query:
        raise Refused("a sink of Holdfast was called by something other than foreachBatch of a streaming query")
    environment = Environment.read()
    owner = Owner(environment.job, str(query))
    return Batch(owner, environment.attempt, batch_id, _digest(session, owner.query, batch_id))


def _digest(session: Any, query: str, batch_id: int) -> str | None:
    """Of the offsets, which Spark writes before a batch and never again: a batch that is repeated has the same."""
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    execution = running.get(session._jvm.java.util.UUID.fromString(query))
    if execution is None:
        return None
    try:
        offsets = Folder(session, str(execution.resolvedCheckpointRoot())).read(f"offsets/{batch_id}")
    except Unavailable:
        return None
    return None if offsets is None else hashlib.sha256(offsets.encode()).hexdigest()
