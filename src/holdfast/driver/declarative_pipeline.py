"""Declarative pipelines: run a specification of `pyspark.pipelines` once, as `spark-pipelines run` does.

The flows run in a Spark Connect server inside this driver's JVM, on a private port with a secret token. The driver therefore
sees their streams, and monitors and stops them like the queries of any script.
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

from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.local_streams import list_active_streams, to_java_query
from holdfast.driver.stderr_log import log_line
from holdfast.errors import HoldfastError, Refused

PIPELINE_SUFFIXES = (".yml", ".yaml")
REQUIRED_MODULES = ("yaml", "grpc", "grpc_status", "pandas", "pyarrow", "zstandard")
CATALOG = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
_ERROR = "\nError: "
_PLAN = " SQLSTATE: "
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\]")
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


def is_pipeline(script: str) -> bool:
    return script.endswith(PIPELINE_SUFFIXES)


def run_pipeline(file: str, checkpoint: str, queries: ActiveQueries) -> None:
    """Run the pipeline to its end. Raises Refused, FlowFailed, or the error of Spark."""
    if missing := [name for name in REQUIRED_MODULES if importlib.util.find_spec(name) is None]:
        packages = ", ".join(missing)
        raise Refused(
            f"declarative pipelines need Python modules that this node lacks ({packages}): "
            'run `pip install "holdfast[pipelines]"` on the node'
        )
    from pyspark.pipelines import cli, spark_connect_graph_element_registry, spark_connect_pipeline

    spec = cli.unpack_pipeline_spec(_load_specification(Path(file), checkpoint))
    server = _ConnectServer(spec.configuration, checkpoint)
    queries.discover = server.started_streams
    with server.connect_client() as session:
        graph = spark_connect_pipeline.create_dataflow_graph(session, spec.catalog, spec.database, spec.configuration)
        registry = spark_connect_graph_element_registry.SparkConnectGraphElementRegistry(session, graph)
        cli.register_definitions(Path(file), registry, spec, session, graph)
        events = spark_connect_pipeline.start_run(
            session, graph, full_refresh=[], full_refresh_all=False, refresh=[], dry=False, storage=spec.storage
        )
        run_events = _PipelineEvents(events)
        try:
            spark_connect_pipeline.handle_pipeline_events(iter(run_events))
        except Exception as error:
            if run_events.failure is None:
                raise
            raise run_events.failure from error


class FlowFailed(HoldfastError):
    """Failure of a flow, with its cause. Spark's own exception says only that some flow failed."""

    def __init__(self, message: str) -> None:
        summary, _, cause = message.partition(_ERROR)
        conditions = [name for name in _CONDITION.findall(cause) if name != "STREAM_FAILED"]
        self._condition = conditions[-1] if conditions else ""
        super().__init__(f"the pipeline failed: {summary.rstrip('. ')}: {cause.partition(_PLAN)[0]}")

    def getCondition(self) -> str:
        return self._condition


class _PipelineEvents:
    """Iterator over the events of a run that remembers the last reported failure."""

    def __init__(self, events: Iterator[dict[str, Any]]) -> None:
        self._events = events
        self.failure: FlowFailed | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for result in self._events:
            if "pipeline_event_result" in result and _ERROR in (message := result["pipeline_event_result"].event.message):
                self.failure = FlowFailed(message)
            yield result


def _load_specification(file: Path, checkpoint: str) -> dict[str, Any]:
    """Return the specification. Without a `storage`, flows keep their checkpoints in the job's checkpoint."""
    import yaml

    specification: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    if specification.get("storage"):
        return specification
    if not checkpoint:
        raise Refused(f"{file.name} has no `storage`: add one, or submit the pipeline with `holdfast submit`")
    return {**specification, "storage": _uri(checkpoint)}


def _uri(path: str) -> str:
    # `Path.as_uri` would percent-encode the path, and Hadoop does not decode it.
    return path if "://" in path else f"file://{path}"


class _ConnectServer:
    """Spark session with a Connect server in this driver's own JVM."""

    def __init__(self, configuration: Mapping[str, str], checkpoint: str) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        self._token = secrets.token_hex(16)
        settings = list(configuration.items())
        SparkContext._ensure_initialized(conf=SparkConf().setAll(settings))  # starts the JVM, which has the submitted settings
        conf = SparkConf(loadDefaults=True).setAll(settings)
        for key, value in (_persistent_catalog(conf, checkpoint) | self._settings()).items():
            conf.set(key, value)
        self._spark = SparkSession(SparkContext.getOrCreate(conf))
        # From now on PySpark creates Connect objects for the pipeline, as `spark-pipelines` does.
        os.environ.update(SPARK_LOCAL_REMOTE="1", SPARK_CONNECT_MODE_ENABLED="1")
        self._lock = threading.Lock()
        self._reported_runs: set[str] = set()

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
    def connect_client(self) -> Any:
        """Yield a Connect session. Stops the session and Spark at the end."""
        from pyspark.sql.connect.session import SparkSession

        port = getattr(_java_class(self._spark, _SERVICE), "MODULE$").localPort()
        # PySpark's client accepts a token without TLS only for the host name `localhost`.
        builder = SparkSession.builder.remote(f"sc://localhost:{port}/;token={self._token}")
        session = builder.config("spark.sql.connect.serverStacktrace.enabled", "false").create()
        try:
            yield session
        finally:
            session.stop()
            self._spark.stop()

    def started_streams(self) -> list[Any]:
        """Return the active streams that earlier calls have not returned, as PySpark queries."""
        from pyspark.sql.streaming.query import StreamingQuery

        streams = list_active_streams(self._spark)
        with self._lock:
            fresh = {run: stream for run, stream in streams.items() if run not in self._reported_runs}
            self._reported_runs |= fresh.keys()
        return [StreamingQuery(to_java_query(self._spark, stream)) for stream in fresh.values()]


def _persistent_catalog(conf: Any, checkpoint: str) -> dict[str, str]:
    """Return settings for a catalog and a warehouse beside the checkpoint, unless the job configures a catalog itself.

    By default Spark keeps the catalog in memory and the tables in this attempt's directory. The next attempt would continue
    from its checkpoints, but the tables written so far would be missing. Raises Refused for a checkpoint on remote storage.
    """
    if conf.contains(CATALOG) or any(key.startswith("spark.sql.catalog.") for key, _ in conf.getAll()):
        return {}
    directory = checkpoint.removeprefix("file://")
    if not directory or "://" in directory:
        raise Refused(
            "this pipeline needs a persistent catalog, and Holdfast can create one only in a local or shared directory: "
            f"configure a catalog with {CATALOG} or spark.sql.catalog.…"
        )
    warehouse = conf.get(WAREHOUSE, None) or f"{checkpoint}/warehouse"
    log_line(f"tables are stored in {warehouse} and the catalog in {directory}/catalog; set {CATALOG} to use another catalog")
    return {CATALOG: "hive", WAREHOUSE: warehouse, METASTORE: f"jdbc:derby:;databaseName={directory}/catalog;create=true"}


def _java_class(spark: Any, name: str) -> Any:
    return getattr(spark._jvm, name)
