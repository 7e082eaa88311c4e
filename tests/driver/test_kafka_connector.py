"""When a job needs Spark's Kafka connector, and how it gets the jars that are there."""

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.driver.kafka_connector import Connector, any_names_kafka, names_kafka, provide


@pytest.mark.parametrize(
    "source",
    [
        'spark.readStream.format("kafka").option("subscribe", "t").load()',
        "spark.read.format('Kafka').load()",
        'spark.readStream.load(format="kafka")',
        'lines.writeStream.format(source="kafka")',
        'spark.readStream.format("org.apache.spark.sql.kafka010.KafkaSourceProvider")',
    ],
)
def test_a_program_that_names_a_kafka_source_is_seen(source: str) -> None:
    assert names_kafka(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "# from Kafka to files\nspark.readStream.format('rate')",
        "topic = 'kafka'",
        "'{} kafka'.format('x')",
        "spark.readStream.format(kafka)",
        "format('kafka' +",
    ],
)
def test_a_program_that_only_mentions_it_is_not(source: str) -> None:
    assert not names_kafka(source)


def test_what_was_packed_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import helpers")
    assert not any_names_kafka(tmp_path)
    with zipfile.ZipFile(tmp_path / "helpers.zip", "w") as packed:
        packed.writestr("helpers/source.py", "stream = lambda spark: spark.readStream.format('kafka')")
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04 not any more")
    assert any_names_kafka(tmp_path)


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    return home


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    script = tmp_path / "code" / "job.py"
    script.write_text("spark.readStream.format('kafka')")
    return script


def variables(spark: Path, tmp_path: Path, words: str = "pyspark-shell", **more: str) -> dict[str, str]:
    return {"SPARK_HOME": str(spark), "HOLDFAST_CONNECTORS": str(tmp_path / "kept"), "PYSPARK_SUBMIT_ARGS": words, **more}


def put(tmp_path: Path, spark: Path, *names: str) -> list[str]:
    connector = Connector.of({"SPARK_HOME": str(spark)})
    assert connector is not None and connector.coordinates == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
    folder = tmp_path / "kept" / connector.folder
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_jars_that_are_there_are_given_to_java_beside_the_job_s_own(spark: Path, job: Path, tmp_path: Path) -> None:
    jars = put(tmp_path, spark, "kafka-clients-4.0.0.jar", "spark-sql-kafka-0-10_2.13-4.3.0.jar")
    plain = variables(spark, tmp_path)
    provide(str(job), plain)
    assert shlex.split(plain["PYSPARK_SUBMIT_ARGS"]) == ["--conf", f"spark.jars={','.join(jars)}", "pyspark-shell"]
    own = variables(spark, tmp_path, "--conf spark.jars=/mine.jar pyspark-shell")
    provide(str(job), own)
    assert shlex.split(own["PYSPARK_SUBMIT_ARGS"])[1] == f"spark.jars=/mine.jar,{','.join(jars)}"


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 pyspark-shell", {}),
        ("--conf spark.jars=/mine/spark-sql-kafka-0-10_2.13-4.3.0.jar pyspark-shell", {}),
        ("pyspark-shell", {"HOLDFAST_KAFKA_CONNECTOR": "off"}),
        ("pyspark-shell", {"HOLDFAST_CONNECTORS": ""}),
    ],
    ids=["its packages", "its jars", "off", "not on a node"],
)
def test_a_job_that_brings_its_own_or_wants_none_is_left_alone(
    spark: Path, job: Path, tmp_path: Path, words: str, more: dict[str, str]
) -> None:
    given = variables(spark, tmp_path, words, **more)
    provide(str(job), given)
    assert given["PYSPARK_SUBMIT_ARGS"] == words
    assert not (tmp_path / "kept").exists()


def test_a_spark_that_has_it_needs_no_other(spark: Path) -> None:
    (spark / "jars" / "spark-sql-kafka-0-10_2.13-4.3.0.jar").touch()
    assert Connector.of({"SPARK_HOME": str(spark)}) is None


def test_a_job_that_names_no_source_gets_it_by_name(spark: Path, job: Path, tmp_path: Path) -> None:
    job.write_text("spark.readStream.format(sys.argv[1])")
    put(tmp_path, spark, "spark-sql-kafka-0-10_2.13-4.3.0.jar")
    quiet, asked = variables(spark, tmp_path), variables(spark, tmp_path, HOLDFAST_KAFKA_CONNECTOR="on")
    for given in (quiet, asked):
        provide(str(job), given)
    assert "spark.jars=" not in quiet["PYSPARK_SUBMIT_ARGS"]
    assert "spark.jars=" in asked["PYSPARK_SUBMIT_ARGS"]


def test_a_job_may_name_another_version(spark: Path, job: Path, tmp_path: Path) -> None:
    other = Connector.of({"SPARK_HOME": str(spark)}, "4.2.9")
    assert other is not None and other.folder == "spark-sql-kafka-0-10_2.13-4.2.9"
    (tmp_path / "kept" / other.folder).mkdir(parents=True)
    (tmp_path / "kept" / other.folder / "spark-sql-kafka-0-10_2.13-4.2.9.jar").touch()
    given = variables(spark, tmp_path, HOLDFAST_KAFKA_CONNECTOR="4.2.9")
    provide(str(job), given)
    assert "4.2.9.jar" in given["PYSPARK_SUBMIT_ARGS"]


def test_the_coordinates_are_those_of_the_spark_that_is_installed() -> None:
    import pyspark

    connector = Connector.of({"PATH": sys.prefix})
    assert connector is not None and connector.coordinates.endswith(f":{pyspark.__version__}")
