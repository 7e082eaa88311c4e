"""Detection of dead processes that this driver depends on: Spark's JVM, and Spark Connect servers.

Spark Connect retries calls to a dead server for about ten minutes, in the script as well as in the monitor thread. So the death
of a server is found without such calls: by the exit status of the JVM, and by the state of the gRPC channel.
"""

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holdfast.driver.failure_message import exit_phrase
from holdfast.driver.monitor_thread import MonitorThread
from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.local_streams import LOCAL_CONNECT_VARIABLE
from holdfast.driver.queries.progress_report import ProgressReporter
from holdfast.driver_protocol.exit_record import CONNECT_SERVER_LOST, ExitRecord

CHECK_INTERVAL_S = 0.5
JVM_LOST_TIMEOUT_S = 10.0
"""Time after the end of the JVM for the script to end by itself, with its own error."""
SERVER_LOST_TIMEOUT_S = 15.0
"""Time without a connection to a Connect server after which the driver gives up. Its queries may still run there."""
STALE_TIMEOUT_S = 15.0
"""Time without an answer from Spark after which the last rate is withdrawn from the progress report."""


class ServerWatch:
    def __init__(
        self, queries: ActiveQueries, monitor: MonitorThread, progress: ProgressReporter, on_lost: Callable[[ExitRecord], None]
    ) -> None:
        """`on_lost` is called on the watch's own thread, because all other threads may wait for the dead server."""
        self._queries = queries
        self._monitor = monitor
        self._progress = progress
        self._on_lost = on_lost
        self._thread = threading.Thread(target=self._run, name="holdfast-servers", daemon=True)
        self._finished = threading.Event()
        self._connections: list[_Connection] = []
        self._jvm_gone_since: float | None = None

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._finished.set()

    def watch_clients(self, module: ModuleType) -> None:
        """Patch the constructor of Connect's client to watch the channel of each client."""
        client = module.SparkConnectClient
        original_init = client.__init__

        @functools.wraps(original_init)
        def init(instance: Any, *args: Any, **kwargs: Any) -> None:
            original_init(instance, *args, **kwargs)
            self._connections.append(_Connection(instance))

        client.__init__ = init

    def _run(self) -> None:
        while not self._finished.wait(CHECK_INTERVAL_S):
            if (loss := self._find_loss()) is not None:
                self._on_lost(loss)
            if self._queries.live and self._monitor.silent_s > STALE_TIMEOUT_S:
                self._progress.withdraw_rates()

    def _find_loss(self) -> ExitRecord | None:
        now = time.monotonic()
        status = _jvm_exit_status()
        if status is None or not (self._queries.live or LOCAL_CONNECT_VARIABLE in os.environ):
            self._jvm_gone_since = None
        else:
            self._jvm_gone_since = self._jvm_gone_since or now
            if now - self._jvm_gone_since >= JVM_LOST_TIMEOUT_S:
                return ExitRecord("failed", f"the JVM {exit_phrase(status)} while the script was using it", java_status=status)
        self._connections = [connection for connection in self._connections if not connection.closed]
        for connection in self._connections:
            since = connection.failing_since
            if since is not None and now - since >= SERVER_LOST_TIMEOUT_S:
                reason = f"the Spark Connect server at {connection.endpoint} was lost while the job was running"
                return ExitRecord("failed", reason, condition=CONNECT_SERVER_LOST)
        return None


class _Connection:
    """Connection of one Connect client. An idle channel counts as connected: it is tested by the next call."""

    def __init__(self, client: Any) -> None:
        self._client = weakref.ref(client)
        self.endpoint = str(getattr(getattr(client, "_builder", None), "endpoint", "") or client.host)
        self.failing_since: float | None = None
        client._channel.subscribe(self._handle_change)

    @property
    def closed(self) -> bool:
        client = self._client()
        return client is None or bool(client.is_closed)

    def _handle_change(self, connectivity: Any) -> None:
        if connectivity.name == "READY":
            self.failing_since = None
        elif connectivity.name == "TRANSIENT_FAILURE":
            self.failing_since = self.failing_since or time.monotonic()


def _jvm_exit_status() -> int | None:
    """Return the exit status of the JVM that PySpark has started, or None if it runs or does not exist."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    return process.poll() if process is not None else None
