"""JVM pre-start: Spark's JVM starts while the script is still importing PySpark, because both take about as long.

PySpark then receives this process instead of starting its own, provided that command, environment and directory are identical.
Otherwise, or if the script never starts Spark, the pre-started JVM is killed and PySpark behaves as usual.
"""

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

CONNECTION_FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Variable with the path of the file into which the JVM writes its port and secret for PySpark."""
SESSION_SETTINGS = ("spark.app.name=", "spark.sql.")
"""Settings that a session applies to the running JVM, so they may differ from the pre-start command."""


class JvmPrestart:
    """Pre-started JVM of one driver, until PySpark takes it over."""

    def __init__(self, directory: str) -> None:
        """Use a private folder below `directory` for the connection file, which contains a secret."""
        self._private_root = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []
        self._variables: dict[str, str] = {}
        self._folder = ""
        self._directory = ""

    def start(self) -> None:
        """Start the JVM. Never raises: on any problem PySpark starts the JVM itself and reports the error."""
        home = _spark_home()
        if home is None:
            return
        self._command = [os.path.join(home, "./bin/spark-submit"), *_submit_arguments()]
        self._variables = _pyspark_environment(os.environ)
        self._directory = os.getcwd()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the JVM inherits this: only the script handles Ctrl-C
        try:
            self._folder = tempfile.mkdtemp(prefix="java-", dir=self._private_root or None)
            variables = {**self._variables, CONNECTION_FILE_VARIABLE: os.path.join(self._folder, "reached")}
            # The JVM exits when this pipe closes, so it does not outlive this process.
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=variables)
        except OSError:
            self.discard()
        finally:
            signal.signal(signal.SIGINT, before)

    def patch_gateway(self, module: ModuleType) -> None:
        """Make the next `Popen` of `pyspark.java_gateway` return the pre-started JVM if it is identical."""
        ordinary = module.Popen

        def start(command: Sequence[str], **options: Any) -> Any:
            module.Popen = ordinary  # type: ignore[attr-defined]  # PySpark imports this name
            process = self._take_over(command, options)
            return process if process is not None else ordinary(command, **options)

        module.Popen = start  # type: ignore[attr-defined]  # PySpark imports this name

    def _take_over(self, command: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes] | None":
        process, variables = self._process, dict(options.get("env") or {})
        connection_file = variables.pop(CONNECTION_FILE_VARIABLE, None)
        same = (
            process is not None
            and connection_file is not None
            and options.keys() <= {"stdin", "env", "preexec_fn"}
            and _without_session_settings(command) == self._command
            and variables == self._variables
            and os.getcwd() == self._directory
            and process.poll() is None
        )
        if not same:
            self.discard()
            return None
        assert connection_file is not None
        os.symlink(os.path.join(self._folder, "reached"), connection_file)
        self._process = None
        return process

    def discard(self) -> None:
        """Kill the JVM unless PySpark has taken it over, and delete the connection file."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def script_starts_jvm(source: bytes, variables: Mapping[str, str]) -> bool:
    """Guess whether a script starts a JVM. A wrong guess costs time only: an unused JVM is killed."""
    uses_spark = b"pyspark" in source or b"holdfast.job" in source
    settings = source + variables.get("PYSPARK_SUBMIT_ARGS", "").encode()
    uses_connect = any(word in settings for word in (b".remote(", b"spark.remote", b"spark.api.mode"))
    connect_variables = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"}
    return uses_spark and not uses_connect and not variables.keys() & connect_variables


def _spark_home() -> str | None:
    if home := os.environ.get("SPARK_HOME"):
        return home
    spec = importlib.util.find_spec("pyspark")
    return os.path.dirname(os.path.realpath(spec.origin)) if spec is not None and spec.origin else None


def _submit_arguments() -> list[str]:
    return shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))


def _pyspark_environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**variables, "SPARK_CONNECT_MODE": "0"}


def _without_session_settings(command: Sequence[str]) -> list[str]:
    """Drop the leading session settings: PySpark puts the settings of the script first."""
    program, *words = command
    while len(words) >= 2 and words[0] == "--conf" and words[1].startswith(SESSION_SETTINGS):
        words = words[2:]
    return [program, *words]
