"""A declarative pipeline: a specification of `pyspark.pipelines`, run as `spark-pipelines run` would, once, to its end.

Its flows run in a Spark Connect server, which is started inside the Java process of this driver, on a port of its own and for
nobody else. So its streams can be watched and stopped like those of any script, although nobody here has started them.
"""

import contextlib
import importlib.util
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.driver.active_queries import Queries
from holdfast.driver.stderr_log import say
from holdfast.errors import HoldfastError, Refused

SUFFIXES = (".yml", ".yaml")
NEEDED = ("yaml", "grpc", "grpc_status", "pandas", "pyarrow", "zstandard")
CATALOG = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
_ERROR = "\nError: "
_PLAN = " SQLSTATE: "
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\]")
_WRAPPER = "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper"
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


def is_pipeline(script: str) -> bool:
    return script.endswith(SUFFIXES)


def run(file: str, checkpoint: str, queries: Queries) -> None:
    """Raises what the pipeline failed of."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise Refused(f"pipelines need {', '.join(missing)}, not installed on this node: install holdfast[pipelines] there")
    from pyspark.pipelines import cli, spark_connect_graph_element_registry, spark_connect_pipeline

    spec = cli.unpack_pipeline_spec(_described(Path(file), checkpoint))
    server = _Server(spec.configuration, checkpoint)
    queries.find = server.started_streams
    with server.connected() as session:
        graph = spark_connect_pipeline.create_dataflow_graph(session, spec.catalog, spec.database, spec.configuration)
        registry = spark_connect_graph_element_registry.SparkConnectGraphElementRegistry(session, graph)
        cli.register_definitions(Path(file), registry, spec, session, graph)
        events = spark_connect_pipeline.start_run(
            session, graph, full_refresh=[], full_refresh_all=False, refresh=[], dry=False, storage=spec.storage
        )
        heard = _Heard(events)
        try:
            spark_connect_pipeline.handle_pipeline_events(iter(heard))
        except Exception as error:
            if heard.failure is None:
                raise
            raise heard.failure from error


class FlowFailed(HoldfastError):
    """What a flow failed of. The exception that Spark ends with says only that some flow did."""

    def __init__(self, message: str) -> None:
        what, _, why = message.partition(_ERROR)
        conditions = [name for name in _CONDITION.findall(why) if name != "STREAM_FAILED"]
        self._condition = conditions[-1] if conditions else ""
        super().__init__(f"its pipeline failed: {what.rstrip('. ')}: {why.partition(_PLAN)[0]}")

    def getCondition(self) -> str:
        return self._condition


class _Heard:
    """The events of a run, passed on as they come, and the last of them that told of a failure."""

    def __init__(self, events: Iterator[dict[str, Any]]) -> None:
        self._events = events
        self.failure: FlowFailed | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for result in self._events:
            if "pipeline_event_result" in result and _ERROR in (said := result["pipeline_event_result"].event.message):
                self.failure = FlowFailed(said)
            yield result


def _described(file: Path, checkpoint: str) -> dict[str, Any]:
    """What the specification says, with a storage: where its flows keep their checkpoints."""
    import yaml

    described: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    if described.get("storage"):
        return described
    if not checkpoint:
        raise Refused(f"{file.name} names no storage, and there is no job whose checkpoint could be used")
    return {**described, "storage": _uri(checkpoint)}


def _uri(place: str) -> str:
    """Not `as_uri`: Hadoop takes what stands there as it is, and decodes nothing."""
    return place if "://" in place else f"file://{place}"


class _Server:
    """Spark with a Connect server in it, in this driver's own Java process."""

    def __init__(self, configuration: Mapping[str, str], checkpoint: str) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        self._token = secrets.token_hex(16)
        own = list(configuration.items())
        SparkContext._ensure_initialized(conf=SparkConf().setAll(own))  # Java, which knows the settings that were submitted
        conf = SparkConf(loadDefaults=True).setAll(own)
        for key, value in (_lasting(conf, checkpoint) | self._settings()).items():
            conf.set(key, value)
        self._spark = SparkSession(SparkContext.getOrCreate(conf))
        # From now on everything that PySpark makes for the pipeline is Connect's, as under `spark-pipelines`.
        os.environ.update(SPARK_LOCAL_REMOTE="1", SPARK_CONNECT_MODE_ENABLED="1")
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def _settings(self) -> dict[str, str]:
        return {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.authenticate.token": self._token,
            "spark.sql.artifact.isolation.enabled": "true",
            "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        }

    @contextlib.contextmanager
    def connected(self) -> Any:
        from pyspark.sql.connect.session import SparkSession

        port = getattr(_java(self._spark, _SERVICE), "MODULE$").localPort()
        # By this name, and no other, PySpark's client takes a token without TLS.
        builder = SparkSession.builder.remote(f"sc://localhost:{port}/;token={self._token}")
        session = builder.config("spark.sql.connect.serverStacktrace.enabled", "false").create()
        try:
            yield session
        finally:
            session.stop()
            self._spark.stop()

    def started_streams(self) -> list[Any]:
        """Those that have not been given out yet, each as PySpark's own query."""
        from pyspark.sql.streaming.query import StreamingQuery

        if self._spark._jsparkSession.sparkContext().isStopped():
            return []
        streams = self._spark._jsparkSession.sharedState().activeStreamingQueries().values()
        with self._lock:
            fresh = {run: stream for stream in list(streams) if (run := str(stream.runId())) not in self._known}
            self._known |= fresh.keys()
        return [StreamingQuery(_java(self._spark, _WRAPPER)(stream)) for stream in fresh.values()]


def _lasting(conf: Any, checkpoint: str) -> dict[str, str]:
    """A catalog and tables that the next attempt finds again, unless the job has named its own.

    Spark would keep the catalog in memory, and the tables in the directory of this attempt: the next one would go on from its
    checkpoints, and what was written before would be missing.
    """
    if conf.contains(CATALOG) or any(key.startswith("spark.sql.catalog.") for key, _ in conf.getAll()):
        return {}
    if not checkpoint or "://" in checkpoint:
        raise Refused(
            "this pipeline needs a catalog that outlives its driver, and one can be kept for it in a directory only: name one "
            f"in its configuration ({CATALOG} or spark.sql.catalog.…)"
        )
    warehouse = conf.get(WAREHOUSE, None) or f"{checkpoint}/warehouse"
    say(f"this pipeline keeps its tables in {warehouse}, and its catalog beside its checkpoint; {CATALOG} chooses another")
    return {CATALOG: "hive", WAREHOUSE: warehouse, METASTORE: f"jdbc:derby:;databaseName={checkpoint}/catalog;create=true"}


def _java(spark: Any, name: str) -> Any:
    return getattr(spark._jvm, name)
