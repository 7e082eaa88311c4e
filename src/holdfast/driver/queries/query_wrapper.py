"""Choice of the wrapper for a PySpark query."""

from typing import Any

from holdfast.driver.queries.connect_query import ConnectQuery
from holdfast.driver.queries.execution_modes import wrap_java_query
from holdfast.driver.queries.local_streams import find_java_query
from holdfast.driver.queries.spark_query import SparkQuery
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger


def wrap_query(query: Any, trigger: Trigger = MICRO_BATCH) -> SparkQuery:
    """Wrap a query of classic Spark or of Spark Connect. A Connect server in this driver's JVM counts as classic Spark."""
    java_query = query._jsq if hasattr(query, "_jsq") else find_java_query(str(getattr(query, "runId", "")))
    return ConnectQuery(query, trigger) if java_query is None else wrap_java_query(query, java_query, trigger)
