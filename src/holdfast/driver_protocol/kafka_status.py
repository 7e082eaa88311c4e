"""Kafka problems and lag of a driver's queries, as the Kafka monitor sees them (`control_files.KAFKA_STATUS_FILE`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LAGS_MAX = 100
NOTE_MAX = 1000


@dataclass(frozen=True, slots=True)
class KafkaStatus:
    note: str = ""
    """Sentence for operators; empty if Kafka is healthy."""
    lag: tuple[Any, ...] = ()
    """Lag of each source: a JSON value (`kafka.check.consumer_lag.Lag`)."""

    def to_json(self) -> dict[str, Any]:
        return {"note": self.note, "lag": list(self.lag)}


def parse_kafka_status(fields: Mapping[str, Any]) -> KafkaStatus:
    """Return the status, with its invalid parts left empty. Never raise."""
    note, lag = fields.get("note"), fields.get("lag")
    return KafkaStatus(
        note=" ".join(note.split())[:NOTE_MAX] if isinstance(note, str) and note.isprintable() else "",
        lag=tuple(lag[:LAGS_MAX]) if isinstance(lag, list) else (),
    )
