"""Driver entry point: `python -m holdfast.driver.bootstrap SCRIPT ARGS…` runs a script as `python SCRIPT ARGS…` does.

In addition it gives each streaming query a permanent checkpoint, reports progress, stops queries at a batch boundary on
request, and writes an exit record. A script whose name ends in `.yml` or `.yaml` is run as a declarative pipeline.
"""

import atexit
import builtins
import contextlib
import importlib.machinery
import io
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from holdfast.driver import declarative_pipeline, jvm_prestart, local_connect_server
from holdfast.driver.after_import import run_after_import
from holdfast.driver.application.application_monitor import ApplicationMonitor
from holdfast.driver.exit_record_writer import ExitRecordWriter, exit_record_of
from holdfast.driver.failure_message import SENTENCE_MAX, describe_failure, strip_own_frames
from holdfast.driver.jvm_prestart import JvmPrestart
from holdfast.driver.kafka import connector
from holdfast.driver.kafka.gate import KafkaGate
from holdfast.driver.monitor_thread import MonitorThread
from holdfast.driver.queries import stop_hooks
from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.checkpoint_placement import CheckpointPlacement, StartGates, patch_writer
from holdfast.driver.queries.location_gate import LocationGate
from holdfast.driver.queries.progress_report import ProgressReporter
from holdfast.driver.queries.query_registry import StartedQueries
from holdfast.driver.readiness import Readiness
from holdfast.driver.server_watch import ServerWatch
from holdfast.driver.start_refused import find_refusal
from holdfast.driver.stderr_log import log_line
from holdfast.driver.stop_request import process_stop_request
from holdfast.driver.termination import TerminationHandler
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.driver_protocol.exit_record import (
    EXECUTORS_UNAVAILABLE,
    FINISHED,
    NODE_LACKS_DEPENDENCY,
    STOPPED,
    STOPPED_WITHIN_BATCH,
    ExitRecord,
)
from holdfast.errors import Unavailable

EXIT_GRACE_S = 5.0
"""Time for the script's own threads to end after a failure, before the process is forced to exit."""
INTERRUPTED_EXIT_CODE = 130
"""Exit code that shells report for a process ended by SIGINT."""


class ScriptDriver:
    """One attempt of a job: the script, the hooks around it, and its exit record."""

    def __init__(self, script: str, environment: DriverEnvironment) -> None:
        self._script = script
        self._environment = environment
        self._queries = ActiveQueries()
        self._stop = process_stop_request()
        progress = ProgressReporter(environment.control_directory)
        self._readiness = Readiness(environment.control_directory, self._queries)
        self._started_queries = StartedQueries(environment.control_directory)
        self._monitor = MonitorThread(
            self._queries,
            self._stop,
            progress,
            self._readiness,
            on_abandoned=self._on_abandoned,
            on_failures=self._started_queries.report_failures,
        )
        self._servers = ServerWatch(self._queries, self._monitor, progress, self._end_now)
        self._application = ApplicationMonitor(environment.control_directory)
        self._exit_writer = ExitRecordWriter(environment.control_directory)
        self._prestart = JvmPrestart(environment.control_directory)
        self._gate = KafkaGate(script, os.environ, self._stop, self._end_now)
        self._location_gate = LocationGate(environment, self._stop)
        self._end: ExitRecord | None = None

    def prepare(self) -> None:
        """Install signal handlers and PySpark hooks, and start the monitor thread."""
        # Exit handlers run in reverse order, so this one runs after every handler of the script.
        atexit.register(self._write_exit_record)
        placement = CheckpointPlacement(self._environment.checkpoint) if self._environment.checkpoint else None
        run_after_import(
            {
                "pyspark.sql.streaming.readwriter": lambda module: self._patch_writers(module, placement),
                "pyspark.sql.connect.streaming.readwriter": lambda module: self._patch_writers(module, placement),
                "pyspark.sql.streaming.query": self._patch_queries,
                "pyspark.sql.connect.streaming.query": self._patch_queries,
                "pyspark.sql.connect.client.core": self._patch_connect_client,
                "pyspark.sql.connect.session": self._patch_connect_session,
                "pyspark.java_gateway": self._prestart.patch_gateway,
                "pyspark.core.context": lambda module: stop_hooks.drain_before_context_stops(module, self._queries, self._stop),
            }
        )
        TerminationHandler(self._queries, self._stop).install()
        for stream in (sys.stdout, sys.stderr):
            # Line buffering shows each line immediately and keeps the last lines when the process is killed.
            with contextlib.suppress(AttributeError, ValueError, OSError):
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # the standard streams are text files here
        self._monitor.start()
        self._servers.start()
        self._application.start()

    def _prestart_jvm(self) -> None:
        with contextlib.suppress(OSError), open(self._script, "rb") as file:
            if not declarative_pipeline.is_pipeline(self._script) and jvm_prestart.script_starts_jvm(file.read(), os.environ):
                self._prestart.start()

    def _patch_writers(self, module: ModuleType, placement: CheckpointPlacement | None) -> None:
        patch_writer(module, placement, self._queries, self._started_queries, StartGates(self._location_gate, self._gate))

    def _patch_queries(self, module: ModuleType) -> None:
        stop_hooks.report_active_until_batch_ends(module, self._stop)
        stop_hooks.record_script_waits(module, self._queries)

    def _patch_connect_client(self, module: ModuleType) -> None:
        local_connect_server.find_port(module)
        self._servers.watch_clients(module)

    def _patch_connect_session(self, module: ModuleType) -> None:
        local_connect_server.use_free_port(module)
        stop_hooks.drain_before_session_stops(module, self._queries, self._stop)

    def run(self) -> int:
        """Run the script until it and all its queries have ended. Return the exit code."""
        try:
            connector.provide_connector(self._script, os.environ)
            program = self._load_program()
        except Unavailable as error:
            log_line(str(error))
            return self._fail(ExitRecord("failed", str(error), condition=NODE_LACKS_DEPENDENCY), 1)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return self._handle_error(error, started=False)
        self._prestart_jvm()
        self._readiness.begin_script(self._script)
        try:
            program()
            self._queries.wait_for_all()
        except SystemExit as exit:
            return self._handle_system_exit(exit.code)
        except BaseException as error:  # noqa: BLE001 -- this is the top of the script
            return self._handle_error(error, started=not _is_syntax_error_of_file(error) or self._queries.any_started)
        return 0

    def _load_program(self) -> Callable[[], None]:
        if declarative_pipeline.is_pipeline(self._script):
            return lambda: declarative_pipeline.run_pipeline(self._script, self._environment.checkpoint, self._queries)
        code = _compile_script(self._script)
        return lambda: exec(code, _main_module(self._script).__dict__)

    # End of the attempt

    def _handle_system_exit(self, status: Any) -> int:
        if status is None or status == 0:
            self._drain_if_stopping()
            return 0
        code = status if isinstance(status, int) else 1
        # Without the mask: sys.exit(os.system(…)) passes on 256 for exit code 1, and a failure with exit code 0 misleads.
        reason = f"the script ended with exit code {code if code > 0 else code & 0xFF}"
        if not isinstance(status, int):
            sys.stderr.write(f"{status}\n")
            reason = f"the script ended: {' '.join(str(status).split())[:200]}"
        return self._fail(ExitRecord("failed", reason, exception="SystemExit"), code)

    def _handle_error(self, error: BaseException, *, started: bool) -> int:
        failure = describe_failure(error, self._script)
        end = find_refusal(error) or self._gate.find_kafka_cause(failure) or exit_record_of(failure, started=started)
        strip_own_frames(error)
        with contextlib.suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)
        return self._fail(end, INTERRUPTED_EXIT_CODE if isinstance(error, KeyboardInterrupt) else 1)

    def _fail(self, end: ExitRecord, code: int) -> int:
        """Record a failure. Return the exit code.

        Many scripts raise when a query ends. After a stop request, such an error counts as a regular stop.
        """
        self._drain_if_stopping()
        if self._stop.sent_to_query and not self._queries.any_failed and end.java_status is None:
            end = ExitRecord("stopped", f"{self._stop_record.reason}; {end.reason}"[:SENTENCE_MAX])
        self._end = end
        self._write_exit_record()
        # A non-daemon thread of the script would keep the failed process alive, and the job would never restart.
        last = threading.Timer(EXIT_GRACE_S, os._exit, (code & 0xFF,))
        last.daemon = True
        last.start()
        return code

    def _on_abandoned(self, reason: str) -> None:
        """Exit immediately. The script is blocked in Spark, which waits for executors, so no exception can reach it."""
        self._end_now(ExitRecord("failed", reason, condition=EXECUTORS_UNAVAILABLE))

    def _end_now(self, end: ExitRecord) -> None:
        log_line(end.reason)
        self._exit_writer.write(end)
        os._exit(1)

    @property
    def _stop_record(self) -> ExitRecord:
        return STOPPED_WITHIN_BATCH if self._stop.interrupted_batch else STOPPED

    def _drain_if_stopping(self) -> None:
        """Wait for the last batches after a stop request: the script may have ended with the first of its queries."""
        if self._stop.requested:
            self._queries.drain()

    def _write_exit_record(self) -> None:
        self._prestart.discard()
        self._servers.finish()
        self._monitor.finish()
        self._application.finish()
        if self._end is None:
            self._end = self._stop_record if self._stop.sent_to_query or self._stop.seen_by_script else FINISHED
        self._exit_writer.write(self._end)


def _compile_script(script: str) -> CodeType:
    with io.open_code(script) as file:
        source = file.read()
    return compile(source, script, "exec", dont_inherit=True)


def _main_module(script: str) -> ModuleType:
    """Create the `__main__` module and install it permanently.

    Pickling by name and multiprocessing look it up, even after the last line of the script.
    """
    module = ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=builtins, __cached__=None, __package__=None)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
    sys.modules["__main__"] = module
    return module


def _is_syntax_error_of_file(error: BaseException) -> bool:
    """Return True if a source file is invalid Python. Text that the script itself fails to parse has no such file."""
    return isinstance(error, SyntaxError) and os.path.isfile(error.filename or "")


def _set_up_paths(script: str) -> None:
    folder = os.path.dirname(os.path.abspath(script))
    if sys.flags.safe_path:
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder
    # Spark's Python workers import the modules beside the script, too.
    paths = os.environ.get("PYTHONPATH", "")
    if folder not in paths.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{paths}{os.pathsep}{folder}" if paths else folder


def main(arguments: list[str]) -> int:
    if not arguments:
        log_line("usage: python -m holdfast.driver.bootstrap SCRIPT [ARGS…]")
        return 2
    script = arguments[0]
    _set_up_paths(script)
    sys.argv[:] = arguments
    driver = ScriptDriver(script, DriverEnvironment.from_variables())
    driver.prepare()
    return driver.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
