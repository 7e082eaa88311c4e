"""Spark's Kafka connector, fetched by Spark's own resolver for a script that names a Kafka source."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.drivers import Driver

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

# The connector is asked, and nobody else: there is no broker.
SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
print("COLUMNS", stream.columns)
"""
VERSION = "4.0.0"
"""One that was published whole: the newest ones reach the mirrors late."""
NOBODY = "http://127.0.0.1:1/"


def test_a_script_that_names_kafka_finds_the_connector_and_the_next_one_fetches_nothing(
    attempts: Callable[[], Driver], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    said = {"HOLDFAST_CONNECTORS": str(kept), "HOLDFAST_KAFKA_CONNECTOR": VERSION}
    first, second = attempts(), attempts()
    assert first.run(SCRIPT, **said) == 0, first.output()
    assert "COLUMNS ['key', 'value', 'topic', 'partition', 'offset'" in first.output()
    assert "fetching org.apache.spark:spark-sql-kafka-0-10" in first.output()
    assert [path.name for path in kept.iterdir() if path.is_dir()] == [next(kept.glob("spark-sql-kafka-*")).name]
    # With nobody to fetch it from, too.
    assert second.run(SCRIPT, **said, DEFAULT_ARTIFACT_REPOSITORY=NOBODY) == 0, second.output()
    assert "fetching" not in second.output()


def test_without_the_connector_and_without_a_way_to_it_there_is_one_sentence(driver: Driver, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert driver.run(SCRIPT, HOLDFAST_CONNECTORS=str(kept), DEFAULT_ARTIFACT_REPOSITORY=NOBODY) == 1
    end = driver.end()
    assert end["reason"].startswith(
        "it names a Kafka source, and Spark's connector cannot be fetched (not found): put the jars of "
    )
    assert "`node.maven`" in end["reason"] and end["reason"].endswith("holdfast.kafka.connector=VERSION")
    assert end["condition"] == "HOLDFAST_NOT_HERE"
    assert "Traceback" not in driver.output()
    assert not list(kept.glob("*/*.jar")), "nothing half"
