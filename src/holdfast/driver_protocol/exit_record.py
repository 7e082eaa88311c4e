"""Exit record: the driver's own statement of how its script ended (`control_files.EXIT_RECORD_FILE`)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from holdfast.driver_protocol.untrusted_text import single_line

TEXT_MAX = 3000

EXECUTORS_UNAVAILABLE = "HOLDFAST_FORSAKEN"
"""Condition: the Spark cluster will never again give this driver executors."""
CONNECT_SERVER_LOST = "HOLDFAST_CONNECT_SERVER_LOST"
"""Condition: the Spark Connect server outside of this driver is unreachable."""
NODE_LACKS_DEPENDENCY = "HOLDFAST_NOT_HERE"
"""Condition: the node lacks something that another node has, or that this node may have later."""
KAFKA_UNAVAILABLE = "HOLDFAST_KAFKA_AWAY"
"""Condition: the brokers are unreachable or temporarily wrong. A retry does not use up the job's restart budget."""
KAFKA_DATA_LOSS = "HOLDFAST_KAFKA_DATA_LOSS"
"""Condition: the saved Kafka offsets no longer refer to the same records. The job is parked until an operator chooses."""
CHECKPOINT_CLAIMED = "HOLDFAST_CHECKPOINT_CLAIMED"
"""Condition: another job owns the checkpoint location of a query. The job is parked until an operator chooses."""

ExitKind = Literal["finished", "stopped", "failed"]
_KINDS: tuple[ExitKind, ...] = ("finished", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class ExitRecord:
    how: ExitKind
    reason: str
    condition: str = ""
    """Error class of Spark, or one of the conditions above; empty if there is none."""
    exception: str = ""
    """Name of the exception class; empty if there was no exception."""
    started: bool | None = True
    """False if no line of the script has run and no retry can change that. None if a reader found no valid value."""
    java_status: int | None = None
    """Exit code of Java (negative: number of the signal that killed it); None if Java did not end first."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


FINISHED = ExitRecord("finished", "the script ended")
STOPPED = ExitRecord("stopped", "the job stopped at a batch boundary, as requested")
STOPPED_WITHIN_BATCH = ExitRecord("stopped", "the job stopped as requested, but possibly within a batch, which then runs again")


def parse_exit_record(fields: object) -> ExitRecord | None:
    """Return the exit record, without its invalid fields; None if `how` is missing or invalid. Never raise."""
    if not isinstance(fields, Mapping) or fields.get("how") not in _KINDS:
        return None
    started, java_status = fields.get("started"), fields.get("java_status")
    return ExitRecord(
        how=fields["how"],
        reason=single_line(fields.get("reason"), TEXT_MAX),
        condition=single_line(fields.get("condition"), TEXT_MAX),
        exception=single_line(fields.get("exception"), TEXT_MAX),
        started=started if isinstance(started, bool) else None,
        java_status=java_status if isinstance(java_status, int) and not isinstance(java_status, bool) else None,
    )
