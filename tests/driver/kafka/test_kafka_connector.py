"""Kafka connector: detection of jobs that need it, and the class path for stored jars."""

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.driver.kafka.connector import KafkaConnector, any_file_uses_kafka, provide_connector, uses_kafka


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
def test_kafka_source_is_detected(source: str) -> None:
    assert uses_kafka(source)


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
def test_mere_mention_of_kafka_is_not_detected(source: str) -> None:
    assert not uses_kafka(source)


def test_kafka_source_is_detected_in_packed_modules(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import helpers")
    assert not any_file_uses_kafka(tmp_path)
    with zipfile.ZipFile(tmp_path / "helpers.zip", "w") as packed:
        packed.writestr("helpers/source.py", "stream = lambda spark: spark.readStream.format('kafka')")
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04 truncated")
    assert any_file_uses_kafka(tmp_path)


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


def make_variables(spark: Path, tmp_path: Path, words: str = "pyspark-shell", **more: str) -> dict[str, str]:
    return {"SPARK_HOME": str(spark), "HOLDFAST_CONNECTORS": str(tmp_path / "connectors"), "PYSPARK_SUBMIT_ARGS": words, **more}


def store_jars(tmp_path: Path, spark: Path, *names: str) -> list[str]:
    connector = KafkaConnector.for_spark({"SPARK_HOME": str(spark)})
    assert connector is not None and connector.coordinates == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
    folder = tmp_path / "connectors" / connector.directory_name
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_stored_jars_are_appended_to_the_jars_of_the_job(spark: Path, job: Path, tmp_path: Path) -> None:
    jars = store_jars(tmp_path, spark, "kafka-clients-4.0.0.jar", "spark-sql-kafka-0-10_2.13-4.3.0.jar")
    plain = make_variables(spark, tmp_path)
    provide_connector(str(job), plain)
    assert shlex.split(plain["PYSPARK_SUBMIT_ARGS"]) == ["--conf", f"spark.jars={','.join(jars)}", "pyspark-shell"]
    own = make_variables(spark, tmp_path, "--conf spark.jars=/mine.jar pyspark-shell")
    provide_connector(str(job), own)
    assert shlex.split(own["PYSPARK_SUBMIT_ARGS"])[1] == f"spark.jars=/mine.jar,{','.join(jars)}"


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 pyspark-shell", {}),
        ("--conf spark.jars=/mine/spark-sql-kafka-0-10_2.13-4.3.0.jar pyspark-shell", {}),
        ("pyspark-shell", {"HOLDFAST_KAFKA_CONNECTOR": "off"}),
        ("pyspark-shell", {"HOLDFAST_CONNECTORS": ""}),
    ],
    ids=["own packages", "own jars", "switched off", "no connector directory"],
)
def test_arguments_are_unchanged_if_the_job_has_its_own_connector_or_disables_it(
    spark: Path, job: Path, tmp_path: Path, words: str, more: dict[str, str]
) -> None:
    given = make_variables(spark, tmp_path, words, **more)
    provide_connector(str(job), given)
    assert given["PYSPARK_SUBMIT_ARGS"] == words
    assert not (tmp_path / "connectors").exists()


def test_spark_with_the_connector_in_its_jars_needs_no_download(spark: Path) -> None:
    (spark / "jars" / "spark-sql-kafka-0-10_2.13-4.3.0.jar").touch()
    assert KafkaConnector.for_spark({"SPARK_HOME": str(spark)}) is None


def test_connector_can_be_requested_explicitly(spark: Path, job: Path, tmp_path: Path) -> None:
    job.write_text("spark.readStream.format(sys.argv[1])")
    store_jars(tmp_path, spark, "spark-sql-kafka-0-10_2.13-4.3.0.jar")
    default, requested = make_variables(spark, tmp_path), make_variables(spark, tmp_path, HOLDFAST_KAFKA_CONNECTOR="on")
    for given in (default, requested):
        provide_connector(str(job), given)
    assert "spark.jars=" not in default["PYSPARK_SUBMIT_ARGS"]
    assert "spark.jars=" in requested["PYSPARK_SUBMIT_ARGS"]


def test_connector_version_can_be_chosen(spark: Path, job: Path, tmp_path: Path) -> None:
    other = KafkaConnector.for_spark({"SPARK_HOME": str(spark)}, "4.2.9")
    assert other is not None and other.directory_name == "spark-sql-kafka-0-10_2.13-4.2.9"
    (tmp_path / "connectors" / other.directory_name).mkdir(parents=True)
    (tmp_path / "connectors" / other.directory_name / "spark-sql-kafka-0-10_2.13-4.2.9.jar").touch()
    given = make_variables(spark, tmp_path, HOLDFAST_KAFKA_CONNECTOR="4.2.9")
    provide_connector(str(job), given)
    assert "4.2.9.jar" in given["PYSPARK_SUBMIT_ARGS"]


def test_coordinates_have_the_version_of_the_installed_spark() -> None:
    import pyspark

    connector = KafkaConnector.for_spark({"PATH": sys.prefix})
    assert connector is not None and connector.coordinates.endswith(f":{pyspark.__version__}")
