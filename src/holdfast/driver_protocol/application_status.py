"""Spark application of a driver on a cluster, as the driver sees it (`control_files.APPLICATION_FILE`)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.driver_protocol.untrusted_text import single_line

TEXT_MAX = 500
APPLICATION_FAILED = ("FAILED", "KILLED")
"""States of an application that YARN has ended. The note then says why."""
APPLICATION_FORGOTTEN = "FORGOTTEN"
"""State of an application that the ResourceManager does not know any more, because it restarted without recovery."""
_COUNT_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class ApplicationStatus:
    id: str = ""
    """Application id of the cluster manager; empty before it has assigned one."""
    state: str = ""
    """State according to YARN; empty for other cluster managers."""
    executors: int = 0
    """Executors that are alive."""
    lost: int = 0
    """Executors that ended without the driver's or an administrator's request."""
    decommissioned: int = 0
    last_loss: str = ""
    """Spark's reason for the newest loss."""
    note: str = ""
    """Sentence for operators: what the application waits for; empty if it waits for nothing."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_application_status(fields: Mapping[str, Any]) -> ApplicationStatus:
    """Return the status, with its invalid parts left empty. Never raise."""
    return ApplicationStatus(
        id=single_line(fields.get("id"), TEXT_MAX),
        state=single_line(fields.get("state"), TEXT_MAX),
        executors=_count(fields.get("executors")),
        lost=_count(fields.get("lost")),
        decommissioned=_count(fields.get("decommissioned")),
        last_loss=single_line(fields.get("last_loss"), TEXT_MAX),
        note=single_line(fields.get("note"), TEXT_MAX),
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < _COUNT_LIMIT else 0
