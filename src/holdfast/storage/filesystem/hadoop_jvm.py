"""JVM with Hadoop's file system client, started from PySpark's jars. It ends with this process.

Only for short-lived processes (see `subprocess_call`). The JVM reads the same configuration as Spark: the files in
HADOOP_CONF_DIR and YARN_CONF_DIR. So both reach the same name nodes, with the same credentials.
"""

import functools
import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import Refused, Unavailable

CONFIGURATION_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# All 280 jars of PySpark would make the start slower.
_JARS = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-2*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
)
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_CONNECT_MS, _CONNECT_RETRIES = 10_000, 2
"""Limits for a name node that does not answer at all. Hadoop's own would wait for a quarter of an hour."""


def hadoop_class_path(environ: Mapping[str, str]) -> list[str]:
    """Return the class path of a Hadoop client. Raises Refused if PySpark has no Hadoop client."""
    entries = [environ[name] for name in CONFIGURATION_VARIABLES if environ.get(name)]
    return [*entries, *(str(file) for pattern in _JARS for file in _find_jars(pattern))]


def _find_jars(pattern: str) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    found = sorted(jars.glob(pattern))
    if not found:
        raise Refused(f"the Hadoop client needs {pattern}, which {jars} does not contain: install holdfast[spark]")
    return found


class HadoopJvm:
    """Gateway to the classes of the JVM."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self.fs = gateway.jvm.org.apache.hadoop.fs
        self.uri = gateway.jvm.java.net.URI

    def configuration(self) -> Any:
        configuration = self._gateway.jvm.org.apache.hadoop.conf.Configuration()
        configuration.setInt("ipc.client.connect.timeout", _CONNECT_MS)
        configuration.setInt("ipc.client.connect.max.retries.on.timeouts", _CONNECT_RETRIES)
        configuration.setInt("ipc.client.connect.max.retries", _CONNECT_RETRIES)
        return configuration

    def rename_options(self, *names: str) -> Any:
        """Return the varargs of a rename."""
        kind = getattr(self._gateway.jvm, "org.apache.hadoop.fs.Options$Rename")
        options = self._gateway.new_array(kind, len(names))
        for index, name in enumerate(names):
            options[index] = kind.valueOf(name)
        return options


@functools.cache
def start_hadoop_jvm() -> HadoopJvm:
    """Start the JVM at the first call. Raises Unavailable if the node has no Java, and Refused."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise Unavailable("the Hadoop client needs Java: install Java 17 or later, and add it to PATH or set JAVA_HOME")
    class_path = hadoop_class_path(os.environ)
    (py4j,) = _find_jars("py4j-*.jar")
    try:
        port, token = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(class_path),
            javaopts=list(_JAVA_OPTIONS),
            java_path=java,
            die_on_exit=True,
            enable_auth=True,
        )
    except Exception as error:
        raise Unavailable(f"the Hadoop client did not start ({type(error).__name__}: {error})") from error
    return HadoopJvm(JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)))
