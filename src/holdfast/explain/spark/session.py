"""A Spark for one question: quick to start, quiet, gone afterwards."""

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
from holdfast.explain.spark.orphans import ended_if_interrupted
from holdfast.explain.spark.worker_archive import package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_WORDS_MAX = 2000
ANSWER_S = 5.0
PYTHON = "PYSPARK_PYTHON"
_LOCAL = re.compile(r"local(\[.*\])?")


def is_local(master: str) -> bool:
    """Whether what reads is on this machine, in processes of our own."""
    return _LOCAL.fullmatch(master) is not None


@contextlib.contextmanager
def spark(master: str, conf: dict[str, str]) -> "Iterator[SparkSession]":
    """What Java has to say is kept to itself unless it fails: the answer is for people."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Refused("PySpark is not installed here: pip install 'holdfast[spark,explain]'") from error
    _check_answers(master)
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory(prefix="holdfast-explain-") as directory:
        try:
            with ended_if_interrupted(), _stderr_to(said.fileno()), _python(conf):  # which Java inherits
                session = _configured(SparkSession.builder, master, conf).getOrCreate()
                if not is_local(master):
                    session.sparkContext.addPyFile(str(package(Path(directory))))
        except Exception as error:
            raise Refused(f"Spark does not start: {_without_frames(error)}{_last_words(said)}") from error
        try:
            yield session
        finally:
            with _stderr_to(said.fileno()):
                session.stop()


def _check_answers(master: str) -> None:
    """A Master that nobody answers for is found out at once, and not after the minute that Spark takes for it."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
            return
        except (OSError, ValueError, OverflowError):
            continue
    raise Refused(f"nobody answers at {master}: is the Spark Master there?")


def _without_frames(error: Exception) -> str:
    """Java's frames help nobody who wants to read logs."""
    return " ".join(line.strip() for line in str(error).splitlines() if not line.lstrip().startswith("at "))[:LAST_WORDS_MAX]


def _configured(builder: Any, master: str, conf: dict[str, str]) -> Any:
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
        # Over TCP, what Java and Python say to each other waits for forty milliseconds at a time.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    return builder


@contextlib.contextmanager
def _python(conf: dict[str, str]) -> Iterator[None]:
    """Workers run the Python that somebody named, else the one that runs this: whatever is called python3 may have no numpy."""
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


def _last_words(said: Any) -> str:
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - LAST_WORDS_MAX))
    words = said.read().decode("utf-8", "replace").strip()
    return f"; it said: {words}" if words else ""
