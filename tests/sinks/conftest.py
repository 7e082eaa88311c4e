"""Shared fixtures: one Spark session, one PostgreSQL server, and an output of each kind."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from tests.harness.postgres import postgres_server
from tests.sinks.outputs import DeltaOutput, ParquetOutput, PostgresOutput, SinkOutput
from tests.sinks.sink_kinds import KINDS
from tests.sinks.spark_session import spark_session
from tests.sinks.streams import SinkStream


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse")) as spark:
        yield spark


@pytest.fixture(scope="session")
def databases() -> Iterator[str]:
    """DSN of the PostgreSQL server."""
    with postgres_server() as dsn:
        yield dsn


@pytest.fixture
def dsn(databases: str) -> str:
    """DSN of a new database for this test."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(databases, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return make_conninfo(databases, dbname=name)


@pytest.fixture(params=KINDS)
def output(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SinkOutput:
    if request.param == "parquet":
        return ParquetOutput(spark, tmp_path)
    if request.param == "delta":
        return DeltaOutput(spark, tmp_path)
    return PostgresOutput(request.getfixturevalue("dsn"))


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> SinkStream:
    return SinkStream(spark, tmp_path)
