"""Which sources of a query are Kafka's, and with which options, as Spark will number them in the checkpoint."""

from typing import Any

KAFKA = "kafka"
PROVIDER = "org.apache.spark.sql.kafka010"


def kafka_sources(writer: Any) -> list[dict[str, Any]]:
    """Number, folder and options of each. Empty for a query of Spark Connect, whose plan lives elsewhere.

    A source that is used twice has two lines in each file of offsets, which both count, and one folder in `sources`. The number
    is that of the line.
    """
    frame = getattr(getattr(writer, "_df", None), "_jdf", None)
    if frame is None:
        return []
    found: list[dict[str, Any]] = []
    folders: list[Any] = []
    for number, leaf in enumerate(_streaming_leaves(frame.queryExecution().analyzed())):
        folder = next((index for index, other in enumerate(folders) if leaf.equals(other)), len(folders))
        if folder == len(folders):
            folders.append(leaf)
        if _is_kafka(leaf):
            found.append({"number": number, "folder": folder, "options": _options(leaf)})
    return found


def _streaming_leaves(plan: Any) -> list[Any]:
    """From left to right, as Spark goes through them."""
    leaves = plan.collectLeaves()
    found = (leaves.apply(index) for index in range(leaves.size()))
    return [leaf for leaf in found if leaf.isStreaming()]


def _is_kafka(leaf: Any) -> bool:
    if not leaf.getClass().getSimpleName().startswith("StreamingRelationV2"):
        return False
    return str(leaf.sourceName()).lower() == KAFKA or PROVIDER in str(leaf.table().getClass().getName())


def _options(leaf: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(leaf.extraOptions().asCaseSensitiveMap()).items()}
