"""Java that is started before the script asks for it: taken if it is the same, and otherwise as if it had never been."""

from pathlib import Path

import pytest

from holdfast.driver.jvm_prestart import wanted_by
from tests.harness.drivers import Driver

CHILDREN = """
import os
def children():
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
before = children()
"""
TAKEN = """
from pyspark import SparkContext
assert spark.range(3).count() == 3
print("TAKEN" if SparkContext._gateway.proc.pid in before else "ANOTHER")
print("CHILDREN", len(children()))
"""
PLAIN = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
NAMED = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.appName('mine').config('spark.sql.shuffle.partitions', '7').getOrCreate()\n"
    "assert spark.conf.get('spark.sql.shuffle.partitions') == '7' and spark.sparkContext.appName == 'mine'\n"
)
SMALLER = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.config('spark.driver.memory', '600m').getOrCreate()\n"
    "assert spark.sparkContext.getConf().get('spark.driver.memory') == '600m'\n"
)
OTHERWISE = "import os\nos.environ['SPARK_SCALA_VERSION'] = '2.13'\n" + PLAIN


@pytest.mark.live
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [(PLAIN, "TAKEN"), (NAMED, "TAKEN"), (SMALLER, "ANOTHER"), (OTHERWISE, "ANOTHER")],
    ids=["plain", "told later", "other memory", "other environment"],
)
def test_java_is_the_one_that_was_started_ahead_if_it_is_what_the_script_wants(
    driver: Driver, script: str, expected: str
) -> None:
    # Memory in the arguments would win over the script's.
    assert driver.run(CHILDREN + script + TAKEN, PYSPARK_SUBMIT_ARGS="--master local[1] pyspark-shell") == 0, driver.output()
    assert f"{expected}\n" in driver.output()
    assert "CHILDREN 1\n" in driver.output(), "the other one is gone"


def test_a_script_that_names_spark_and_never_asks_for_it_leaves_no_java(driver: Driver) -> None:
    assert driver.run(CHILDREN + "print('AHEAD', len(before))\n# pyspark\n") == 0, driver.output()
    assert "AHEAD 1\n" in driver.output()
    assert driver.end()["how"] == "finished"
    assert not list(driver.control.glob("java-*"))


def test_a_spark_that_cannot_be_started_ahead_is_told_of_when_the_script_asks(driver: Driver, tmp_path: Path) -> None:
    assert driver.run(PLAIN, SPARK_HOME=str(tmp_path / "nowhere")) == 1
    assert "nowhere/./bin/spark-submit" in driver.end()["reason"]


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
def test_what_seems_to_want_java(source: bytes, variables: dict[str, str], expected: bool) -> None:
    assert wanted_by(source, variables) is expected
