"""Identity of a batch: its owner, fencing token, id and digest. The only module here that accesses a stream's internals."""

import hashlib
from typing import TYPE_CHECKING, Any

from holdfast.driver.stderr_log import log_line
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.errors import Refused, Unavailable
from holdfast.sinks.batch_ledger import GENERATION_BITS, BatchIdentity, Owner
from holdfast.sinks.hadoop_files import HadoopFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY = "sql.streaming.queryId"


def identify_batch(frame: "DataFrame", batch_id: int) -> BatchIdentity:
    """Return the identity of the batch that `foreachBatch` passes to a sink. Raises Refused outside of such a call."""
    session: Any = frame.sparkSession
    if not hasattr(session, "_jsparkSession"):
        raise Refused("the sinks of Holdfast do not work with Spark Connect: use a classic Spark session")
    query = session.sparkContext.getLocalProperty(_QUERY)
    if not query:
        raise Refused("a sink of Holdfast works only inside foreachBatch: pass it to writeStream.foreachBatch(…)")
    environment = DriverEnvironment.from_variables()
    owner = Owner(lineage_owner(environment), str(query))
    return BatchIdentity(owner, fencing_token(environment), batch_id, _digest(session, owner.query, batch_id))


def skip_batch(frame: "DataFrame", batch: BatchIdentity, output: str) -> None:
    """Evaluate the rows of a batch that was written before a crash, and discard them.

    The evaluation is necessary: Spark keeps the state of a query only for evaluated batches, and fails a query without it.
    """
    log_line(f"skipping batch {batch.id}: {output} contains it already")
    frame.write.format("noop").mode("overwrite").save()


def lineage_owner(environment: DriverEnvironment) -> str:
    """Return the first job of a chain of jobs that continue each other's checkpoint. It owns the outputs of all of them."""
    return environment.ancestors[-1] if environment.ancestors else environment.job


def fencing_token(environment: DriverEnvironment) -> int:
    """Return a number that grows with every attempt, and from a job to the job that continues its checkpoint."""
    return (len(environment.ancestors) << GENERATION_BITS) + environment.attempt


def _digest(session: Any, query: str, batch_id: int) -> str | None:
    """Return a digest of the batch's offsets, or None if they cannot be read.

    Spark writes the offsets once, before the batch, so a repeated batch has the same digest.
    """
    active = session._jsparkSession.sharedState().activeStreamingQueries()
    execution = active.get(session._jvm.java.util.UUID.fromString(query))
    if execution is None:
        return None
    try:
        offsets = HadoopFolder(session, str(execution.resolvedCheckpointRoot())).read(f"offsets/{batch_id}")
    except Unavailable:
        return None
    return None if offsets is None else hashlib.sha256(offsets.encode()).hexdigest()
