"""A Spark for one question: quick to start, quiet, gone afterwards."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark(master: str, conf: dict[str, str]) -> "Iterator[SparkSession]":
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Refused("PySpark is not installed here: pip install 'holdfast[spark,explain]'") from error
    settings = {
        "spark.app.name": "holdfast explain",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.log.level": "ERROR",
        **conf,
    }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if master.startswith("local") else "")
    if not os.environ["SPARK_LOCAL_IP"]:
        del os.environ["SPARK_LOCAL_IP"]
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
