"""JVM pre-start: PySpark takes over a matching JVM, and any other one is killed."""

from pathlib import Path

import pytest

from holdfast.driver.jvm_prestart import script_starts_jvm
from tests.harness.drivers import DriverProcess

CHILDREN = """
import os
def children():
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
before = children()
"""
PRESTARTED = """
from pyspark import SparkContext
assert spark.range(3).count() == 3
print("PRESTARTED" if SparkContext._gateway.proc.pid in before else "ANOTHER")
print("CHILDREN", len(children()))
"""
PLAIN = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
SESSION_SETTINGS = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.appName('mine').config('spark.sql.shuffle.partitions', '7').getOrCreate()\n"
    "assert spark.conf.get('spark.sql.shuffle.partitions') == '7' and spark.sparkContext.appName == 'mine'\n"
)
OTHER_MEMORY = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.config('spark.driver.memory', '600m').getOrCreate()\n"
    "assert spark.sparkContext.getConf().get('spark.driver.memory') == '600m'\n"
)
OTHER_ENVIRONMENT = "import os\nos.environ['SPARK_SCALA_VERSION'] = '2.13'\n" + PLAIN


@pytest.mark.live
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [(PLAIN, "PRESTARTED"), (SESSION_SETTINGS, "PRESTARTED"), (OTHER_MEMORY, "ANOTHER"), (OTHER_ENVIRONMENT, "ANOTHER")],
    ids=["default", "session settings", "other memory", "other environment"],
)
def test_prestarted_jvm_is_used_if_it_matches_the_script(driver: DriverProcess, script: str, expected: str) -> None:
    # Memory in the arguments would override the setting of the script.
    assert driver.run(CHILDREN + script + PRESTARTED, PYSPARK_SUBMIT_ARGS="--master local[1] pyspark-shell") == 0, (
        driver.output()
    )
    assert f"{expected}\n" in driver.output()
    assert "CHILDREN 1\n" in driver.output(), "the prestarted JVM is killed if it is not used"


def test_unused_prestarted_jvm_is_killed(driver: DriverProcess) -> None:
    assert driver.run(CHILDREN + "print('CHILDREN BEFORE', len(before))\n# pyspark\n") == 0, driver.output()
    assert "CHILDREN BEFORE 1\n" in driver.output()
    assert driver.exit_record()["how"] == "finished"
    assert not list(driver.control.glob("java-*"))


@pytest.mark.slow
def test_failed_prestart_is_reported_when_the_script_starts_spark(driver: DriverProcess, tmp_path: Path) -> None:
    assert driver.run(PLAIN, SPARK_HOME=str(tmp_path / "nowhere")) == 1
    assert "nowhere/./bin/spark-submit" in driver.exit_record()["reason"]


@pytest.mark.parametrize(
    ("source", "variables", "expected"),
    [
        (b"import json", {}, False),
        (b"from pyspark.sql import SparkSession", {}, True),
        (b"from holdfast.job import context", {}, True),
        (b"import pyspark; SparkSession.builder.remote('sc://h')", {}, False),
        (b"import pyspark", {"SPARK_REMOTE": "sc://h"}, False),
        (b"import pyspark", {"PYSPARK_SUBMIT_ARGS": "--conf spark.api.mode=connect pyspark-shell"}, False),
    ],
)
def test_script_starts_jvm_is_guessed_from_source_and_environment(
    source: bytes, variables: dict[str, str], expected: bool
) -> None:
    assert script_starts_jvm(source, variables) is expected
