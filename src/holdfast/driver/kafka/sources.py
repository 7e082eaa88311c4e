"""Kafka sources of a query, in the form that the Kafka monitor reads."""

from typing import Any

from holdfast.driver.queries.streaming_sources import StreamingSource, list_streaming_sources

KAFKA = "kafka"
PROVIDER = "org.apache.spark.sql.kafka010"


def list_kafka_sources(writer: Any) -> list[dict[str, Any]]:
    """Return number, folder, options and name of each Kafka source."""
    return [
        {"number": source.number, "folder": source.folder, "options": source.options, "name": source.name}
        for source in list_streaming_sources(writer)
        if _is_kafka(source)
    ]


def _is_kafka(source: StreamingSource) -> bool:
    return source.format == KAFKA or source.format.startswith(PROVIDER) or PROVIDER in source.implementation
