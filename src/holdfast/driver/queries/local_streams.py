"""Streams in this driver's own JVM. A Spark Connect server that runs in that JVM starts its streams there, too."""

import sys
from collections.abc import Mapping
from typing import Any

LOCAL_CONNECT_VARIABLE = "SPARK_LOCAL_REMOTE"
"""Variable that PySpark sets while a Connect server in this driver's JVM is in use."""
_WRAPPER = "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper"


def find_local_session() -> Any:
    """Return the classic session of this process, or None without one. A Connect server in this driver's JVM has one, too."""
    module = sys.modules.get("pyspark.sql.session")
    session = getattr(getattr(module, "SparkSession", None), "_instantiatedSession", None)
    return session if getattr(session, "_jsc", None) is not None else None


def list_active_streams(session: Any) -> Mapping[str, Any]:
    """Return the active streams of a classic session's JVM, by run id. Streams of all its sessions are included."""
    java_session = session._jsparkSession
    if java_session.sparkContext().isStopped():
        return {}
    return {str(stream.runId()): stream for stream in list(java_session.sharedState().activeStreamingQueries().values())}


def to_java_query(session: Any, stream: Any) -> Any:
    """Return the Java query object of a stream, with the methods that PySpark calls."""
    return getattr(session._jvm, _WRAPPER)(stream)


def find_java_query(run_id: str) -> Any:
    """Return the Java query of an active stream, or None if it has ended or runs in a server outside of this process."""
    session = find_local_session()
    if session is None:
        return None
    try:
        stream = list_active_streams(session).get(run_id)
        return to_java_query(session, stream) if stream is not None else None
    except Exception:  # noqa: BLE001 -- py4j raises various errors, for example after the session has stopped
        return None
