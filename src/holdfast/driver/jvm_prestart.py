"""Java is started while the script is still importing PySpark: both take about as long, and a machine has more than one core.

PySpark then gets this process instead of starting its own, if it is exactly the one that it would have started. If the script
changed its mind about anything that Java is started with, or never asks for Spark, it is ended again and all is as ever.
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

PLACE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable by which PySpark tells Java where to write down how it is reached."""
TOLD_LATER = ("spark.app.name=", "spark.sql.")
"""Settings that a session tells Java once it runs, in any case."""


class JavaAhead:
    def __init__(self, place: str) -> None:
        """The place is for a file with the word by which Java is reached, which is nobody else's business."""
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []
        self._variables: dict[str, str] = {}
        self._folder = ""
        self._directory = ""

    def start(self) -> None:
        """Never fails: without it, PySpark starts Java as ever, and tells what is wrong with it."""
        home = _spark_home()
        if home is None:
            return
        self._command = [os.path.join(home, "./bin/spark-submit"), *_submit_arguments()]
        self._variables = _as_pyspark_sets_them(os.environ)
        self._directory = os.getcwd()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is for the script to handle
        try:
            self._folder = tempfile.mkdtemp(prefix="java-", dir=self._place or None)
            variables = {**self._variables, PLACE: os.path.join(self._folder, "reached")}
            # It ends when this pipe does, which is when this process does.
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=variables)
        except OSError:
            self.forget()
        finally:
            signal.signal(signal.SIGINT, before)

    def offer_to(self, module: ModuleType) -> None:
        """To `pyspark.java_gateway`: what it starts next is this one, if they are the same."""
        ordinary = module.Popen

        def start(command: Sequence[str], **options: Any) -> Any:
            module.Popen = ordinary  # type: ignore[attr-defined]
            process = self._taken(command, options)
            return process if process is not None else ordinary(command, **options)

        module.Popen = start  # type: ignore[attr-defined]

    def _taken(self, command: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes] | None":
        process, variables = self._process, dict(options.get("env") or {})
        place = variables.pop(PLACE, None)
        same = (
            process is not None
            and place is not None
            and options.keys() <= {"stdin", "env", "preexec_fn"}
            and _without_what_is_told_later(command) == self._command
            and variables == self._variables
            and os.getcwd() == self._directory
            and process.poll() is None
        )
        if not same:
            self.forget()
            return None
        assert place is not None
        os.symlink(os.path.join(self._folder, "reached"), place)
        self._process = None
        return process

    def forget(self) -> None:
        """Unless it was taken."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def wanted_by(source: bytes, variables: Mapping[str, str]) -> bool:
    """Whether a script seems to start Java. It need not be right: what is started in vain is ended again."""
    asks = b"pyspark" in source or b"holdfast.job" in source
    said = source + variables.get("PYSPARK_SUBMIT_ARGS", "").encode()
    elsewhere = any(word in said for word in (b".remote(", b"spark.remote", b"spark.api.mode"))
    return asks and not elsewhere and not variables.keys() & {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"}


def _spark_home() -> str | None:
    if home := os.environ.get("SPARK_HOME"):
        return home
    spec = importlib.util.find_spec("pyspark")
    return os.path.dirname(os.path.realpath(spec.origin)) if spec is not None and spec.origin else None


def _submit_arguments() -> list[str]:
    return shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))


def _as_pyspark_sets_them(variables: Mapping[str, str]) -> dict[str, str]:
    return {**variables, "SPARK_CONNECT_MODE": "0"}


def _without_what_is_told_later(command: Sequence[str]) -> list[str]:
    """PySpark puts what the script has set before everything else."""
    program, *words = command
    while len(words) >= 2 and words[0] == "--conf" and words[1].startswith(TOLD_LATER):
        words = words[2:]
    return [program, *words]
