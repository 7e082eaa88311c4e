"""Kafka sources of a query, numbered as in Spark's checkpoint."""

from typing import Any

KAFKA = "kafka"
PROVIDER = "org.apache.spark.sql.kafka010"


def list_kafka_sources(writer: Any) -> list[dict[str, Any]]:
    """Return number, folder, options and name of each Kafka source. Empty for Spark Connect, whose plan is not accessible.

    `number` is the line of the source in each offsets file; `folder` is its folder in `sources`. A source that is used twice
    has two lines and one folder. A source with a name (Spark 4.2 and later) is found by its name instead.
    """
    frame = getattr(getattr(writer, "_df", None), "_jdf", None)
    if frame is None:
        return []
    sources: list[dict[str, Any]] = []
    folders: list[Any] = []
    for number, leaf in enumerate(_streaming_leaves(frame.queryExecution().analyzed())):
        folder = next((index for index, other in enumerate(folders) if leaf.equals(other)), len(folders))
        if folder == len(folders):
            folders.append(leaf)
        if _is_kafka(leaf):
            sources.append({"number": number, "folder": folder, "options": _options(leaf), "name": _name(leaf)})
    return sources


def _streaming_leaves(plan: Any) -> list[Any]:
    """Return the streaming leaves of the plan from left to right, the order in which Spark numbers them."""
    leaves = plan.collectLeaves()
    every_leaf = (leaves.apply(index) for index in range(leaves.size()))
    return [leaf for leaf in every_leaf if leaf.isStreaming()]


def _is_kafka(leaf: Any) -> bool:
    if not leaf.getClass().getSimpleName().startswith("StreamingRelationV2"):
        return False
    return str(leaf.sourceName()).lower() == KAFKA or PROVIDER in str(leaf.table().getClass().getName())


def _options(leaf: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(leaf.extraOptions().asCaseSensitiveMap()).items()}


def _name(leaf: Any) -> str:
    """Return the name that the script gave the source, or "" without one. Spark before 4.2 has no names."""
    try:
        name = leaf.sourceIdentifyingName().nameOpt()
        return str(name.get()) if name.isDefined() else ""
    except Exception:  # noqa: BLE001 - py4j reports a missing method with an error of its own
        return ""
