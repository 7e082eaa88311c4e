"""Download of Spark's Kafka connector with Spark's own resolver."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.drivers import DriverProcess

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

# The schema comes from the connector alone, so the script needs no broker.
SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
print("COLUMNS", stream.columns)
"""
VERSION = "4.0.0"
"""Completely published version: the newest ones reach the mirrors late."""
UNREACHABLE_REPOSITORY = "http://127.0.0.1:1/"


def test_connector_is_downloaded_once_and_reused(attempts: Callable[[], DriverProcess], tmp_path: Path) -> None:
    connectors = tmp_path / "connectors"
    variables = {"HOLDFAST_CONNECTORS": str(connectors), "HOLDFAST_KAFKA_CONNECTOR": VERSION}
    first, second = attempts(), attempts()
    assert first.run(SCRIPT, **variables) == 0, first.output()
    assert "COLUMNS ['key', 'value', 'topic', 'partition', 'offset'" in first.output()
    assert "downloading org.apache.spark:spark-sql-kafka-0-10" in first.output()
    assert [path.name for path in connectors.iterdir() if path.is_dir()] == [next(connectors.glob("spark-sql-kafka-*")).name]
    # The stored jars also work while the repository is unreachable.
    assert second.run(SCRIPT, **variables, DEFAULT_ARTIFACT_REPOSITORY=UNREACHABLE_REPOSITORY) == 0, second.output()
    assert "downloading" not in second.output()


def test_failed_download_is_explained_in_one_sentence(driver: DriverProcess, tmp_path: Path) -> None:
    connectors = tmp_path / "connectors"
    assert driver.run(SCRIPT, HOLDFAST_CONNECTORS=str(connectors), DEFAULT_ARTIFACT_REPOSITORY=UNREACHABLE_REPOSITORY) == 1
    end = driver.exit_record()
    assert end["reason"].startswith(
        "the job uses Kafka, but Spark's Kafka connector cannot be downloaded (not found): put the jars of "
    )
    assert "`node.maven`" in end["reason"] and end["reason"].endswith("holdfast.kafka.connector=VERSION")
    assert end["condition"] == "HOLDFAST_NOT_HERE"
    assert "Traceback" not in driver.output()
    assert not list(connectors.glob("*/*.jar")), "no incomplete download is left"
