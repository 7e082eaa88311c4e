"""Which sources of a query are Kafka's, and with which options, as Spark will number them in the checkpoint."""

from typing import Any

KAFKA = "kafka"
PROVIDER = "org.apache.spark.sql.kafka010"


def kafka_sources(writer: Any) -> list[dict[str, Any]]:
    """Number and options of each. Empty for a query of Spark Connect, whose plan lives elsewhere."""
    frame = getattr(getattr(writer, "_df", None), "_jdf", None)
    if frame is None:
        return []
    leaves = _streaming_leaves(frame.queryExecution().analyzed())
    return [{"number": number, "options": _options(leaf)} for number, leaf in enumerate(leaves) if _is_kafka(leaf)]


def _streaming_leaves(plan: Any) -> list[Any]:
    """In the order in which Spark numbers its sources: from left to right, and the same relation only once."""
    found: list[Any] = []
    leaves = plan.collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in found):
            found.append(leaf)
    return found


def _is_kafka(leaf: Any) -> bool:
    if not leaf.getClass().getSimpleName().startswith("StreamingRelationV2"):
        return False
    return str(leaf.sourceName()).lower() == KAFKA or PROVIDER in str(leaf.table().getClass().getName())


def _options(leaf: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(leaf.extraOptions().asCaseSensitiveMap()).items()}
