"""Spark session for one command: it starts quickly, prints nothing and stops afterwards."""

import contextlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused
from holdfast.explain.spark.orphans import kill_children_on_interrupt
from holdfast.explain.spark.worker_archive import write_worker_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTPUT_CHARS_MAX = 2000
CONNECT_TIMEOUT_S = 5.0
PYTHON = "PYSPARK_PYTHON"
_LOCAL = re.compile(r"local(\[.*\])?")


def is_local(master: str) -> bool:
    """Return True if Spark runs in this process and its children."""
    return _LOCAL.fullmatch(master) is not None


@contextlib.contextmanager
def spark_session(master: str, conf: dict[str, str]) -> "Iterator[SparkSession]":
    """Run a session until the end of the block. The output of Java is shown only if Spark does not start.

    Raise Refused if PySpark is missing, the master does not answer or Spark does not start."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Refused("PySpark is not installed here: pip install 'holdfast[spark,explain]'") from error
    _check_master(master)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(prefix="holdfast-explain-") as directory:
        try:
            with kill_children_on_interrupt(), _stderr_to(output.fileno()), _worker_python(conf):  # Java inherits both
                session = _configure(SparkSession.builder, master, conf).getOrCreate()
                if not is_local(master):
                    session.sparkContext.addPyFile(str(write_worker_archive(Path(directory))))
        except Exception as error:
            raise Refused(f"Spark does not start: {_without_frames(error)}{_last_output(output)}") from error
        try:
            yield session
        finally:
            with _stderr_to(output.fileno()):
                session.stop()


def _check_master(master: str) -> None:
    """Raise Refused at once if no Spark Master answers; Spark itself takes a minute to notice."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            return
        except (OSError, ValueError, OverflowError):
            continue
    raise Refused(f"no Spark Master answers at {master}: check --master, and that the Master is running")


def _without_frames(error: Exception) -> str:
    """Return the message without the frames of Java's stack trace, on one line."""
    return " ".join(line.strip() for line in str(error).splitlines() if not line.lstrip().startswith("at "))[:OUTPUT_CHARS_MAX]


def _configure(builder: Any, master: str, conf: dict[str, str]) -> Any:
    settings = {
        "spark.app.name": "holdfast explain",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "spark.log.level": "ERROR",
    }
    if is_local(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Over TCP, each exchange between Java and Python can wait 40 ms.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    return builder


@contextlib.contextmanager
def _worker_python(conf: dict[str, str]) -> Iterator[None]:
    """Make workers run the configured Python, or the current one: the default `python3` may lack numpy."""
    before = os.environ.get(PYTHON)
    os.environ[PYTHON] = conf.get("spark.pyspark.python") or before or sys.executable
    try:
        yield
    finally:
        if before is None:
            del os.environ[PYTHON]
        else:
            os.environ[PYTHON] = before


@contextlib.contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _last_output(output: Any) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - OUTPUT_CHARS_MAX))
    text = output.read().decode("utf-8", "replace").strip()
    return f"; its output: {text}" if text else ""
