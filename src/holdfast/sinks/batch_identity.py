"""What Spark and the runner say of a batch. The only module here that reaches into a stream."""

import hashlib
from typing import TYPE_CHECKING, Any

from holdfast.driver.stderr_log import say
from holdfast.driver_protocol.environment import Environment
from holdfast.errors import Refused, Unavailable
from holdfast.sinks.batch_ledger import GENERATION_BITS, Batch, Owner
from holdfast.sinks.hadoop_files import Folder

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
    owner = Owner(lineage(environment), str(query))
    return Batch(owner, fence(environment), batch_id, _digest(session, owner.query, batch_id))


def skip(frame: "DataFrame", batch: Batch, where: str) -> None:
    """A batch that was written before a crash. It is computed once more all the same: Spark keeps the state of a query only
    for batches that were, and ends one whose sink has looked away.
    """
    say(f"batch {batch.id} is in {where} already, and is not written again")
    frame.write.format("noop").mode("overwrite").save()


def lineage(environment: Environment) -> str:
    """A job that goes on from another's checkpoint goes on with its outputs, too: all of them have the name of the first."""
    return environment.ancestors[-1] if environment.ancestors else environment.job


def fence(environment: Environment) -> int:
    """Grows with every attempt of a job, and from a job to the one that goes on from it."""
    return (len(environment.ancestors) << GENERATION_BITS) + environment.attempt


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
