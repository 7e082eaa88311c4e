"""The driver's last words: `control/end.json`."""

import os
from dataclasses import asdict, dataclass

from holdfast.driver.failure_message import Failure
from holdfast.driver_protocol import control_files


@dataclass(frozen=True, slots=True)
class End:
    how: str
    """finished, stopped or failed."""
    reason: str
    condition: str = ""
    exception: str = ""
    started: bool = True
    """False if not a line of the script has run, and never will."""
    java_status: int | None = None

    @staticmethod
    def of(failure: Failure, *, started: bool) -> "End":
        return End("failed", failure.reason, failure.condition, failure.exception, started, failure.java_status)


FORSAKEN = "HOLDFAST_FORSAKEN"
"""The condition of a driver whose Spark cluster will never give it executors again."""
NOT_HERE = "HOLDFAST_NOT_HERE"
"""The condition of a driver whose node lacks something that another node, or this one later, may have."""
KAFKA_AWAY = "HOLDFAST_KAFKA_AWAY"
"""The condition of a driver whose brokers are away, or briefly wrong: to be tried again, at nobody's expense."""
KAFKA_DATA_LOSS = "HOLDFAST_KAFKA_DATA_LOSS"
"""The condition of a driver whose Kafka offsets are not what they were: a person has to choose."""
FINISHED = End("finished", "its script ended")
STOPPED = End("stopped", "it stopped at a batch boundary, as asked")
STOPPED_ABRUPTLY = End("stopped", "it stopped as asked, but maybe within a batch, which then runs again")


class LastWords:
    """Written once, by the process that was started and by none that it forks."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pid = os.getpid()
        self._said = False

    def say(self, end: End) -> None:
        if self._said or os.getpid() != self._pid:
            return
        self._said = True
        control_files.write(self._directory, "end.json", asdict(end))
