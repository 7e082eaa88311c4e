"""Streaming sources in the plan of a Spark Connect query, which needs no server."""

from typing import Any

import pytest

from holdfast.driver.kafka.sources import list_kafka_sources

pytestmark = pytest.mark.slow  # imports PySpark's Connect client


class NoServer:
    """Client of a plan that is never sent."""


class FakeSession:
    client = NoServer()


def connect_writer(plan: Any) -> Any:
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    session: Any = FakeSession()
    return DataStreamWriter(plan, session)


def test_kafka_sources_of_a_connect_plan_are_numbered_from_left_to_right() -> None:
    from pyspark.sql.connect.plan import DataSource, SetOperation

    def topic(name: str, source_name: str | None = None) -> DataSource:
        return DataSource(format="Kafka", options={"subscribe": name}, is_streaming=True, source_name=source_name)

    rate, static = DataSource(format="rate", is_streaming=True), DataSource(format="kafka", options={"subscribe": "static"})
    plan = SetOperation(SetOperation(topic("a"), rate, "union"), SetOperation(static, topic("b", "named"), "union"), "union")
    assert list_kafka_sources(connect_writer(plan)) == [
        {"number": 0, "folder": 0, "options": {"subscribe": "a"}, "name": ""},
        {"number": 2, "folder": 2, "options": {"subscribe": "b"}, "name": "named"},
    ]
