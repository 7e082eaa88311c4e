"""Port of a Spark Connect server that PySpark starts in this driver's JVM, for `SparkSession.builder.remote("local[2]")`.

PySpark always uses port 15002 there, so the second of two such drivers on one node would fail. The server therefore takes a
free port of the loopback interface, unless the job configures a port.
"""

import functools
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from holdfast.driver.queries.local_streams import LOCAL_CONNECT_VARIABLE, find_local_session

PORT, ADDRESS = "spark.connect.grpc.binding.port", "spark.connect.grpc.binding.address"
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


def use_free_port(module: ModuleType) -> None:
    """Patch Connect's SparkSession to start a local server on a free port."""
    session = module.SparkSession
    original_start = session._start_connect_server

    @functools.wraps(original_start)
    def start(master: str, opts: dict[str, Any]) -> None:
        if not is_port_configured(opts, os.environ):
            opts.update({PORT: "0", ADDRESS: "127.0.0.1"})
        original_start(master, opts)

    session._start_connect_server = staticmethod(start)


def find_port(module: ModuleType) -> None:
    """Patch the client of Connect to ask the JVM for the port if a local server is in use."""
    builder = module.DefaultChannelBuilder
    original_port = builder.default_port

    @functools.wraps(original_port)
    def default_port() -> int:
        return _local_port() or int(original_port())

    builder.default_port = staticmethod(default_port)


def is_port_configured(options: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    return PORT in options or PORT in variables.get("PYSPARK_SUBMIT_ARGS", "")


def _local_port() -> int | None:
    session = find_local_session()
    if session is None or LOCAL_CONNECT_VARIABLE not in os.environ:
        return None
    try:
        return int(getattr(getattr(session._jvm, _SERVICE), "MODULE$").localPort())
    except Exception:  # noqa: BLE001 -- py4j raises various errors; PySpark's own default may still be right
        return None
