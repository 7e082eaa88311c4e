"""What the runner tells a driver. Under bare `spark-submit` it tells nothing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class Environment:
    job: str = ""
    name: str = ""
    attempt: int = 0
    """Only grows from one attempt of a job to the next: a sink may use it as a fencing token. 0 is nobody's."""
    ancestors: tuple[str, ...] = ()
    """The jobs whose checkpoint this one went on from, the newest first."""
    checkpoint: str = ""
    """The root of this job's checkpoints, a path or URI that Spark understands."""
    control: str = ""
    """The directory through which the runner and this process talk."""

    @property
    def supervised(self) -> bool:
        return bool(self.job)

    @staticmethod
    def read(variables: Mapping[str, str] | None = None) -> "Environment":
        variables = os.environ if variables is None else variables
        attempt = variables.get("HOLDFAST_ATTEMPT") or "0"
        if not (attempt.isascii() and attempt.isdigit()):
            raise Refused(f"HOLDFAST_ATTEMPT is '{attempt}', which is not the number of an attempt")
        return Environment(
            job=variables.get("HOLDFAST_JOB", ""),
            name=variables.get("HOLDFAST_NAME", ""),
            attempt=int(attempt),
            ancestors=tuple(filter(None, variables.get("HOLDFAST_ANCESTORS", "").split(","))),
            checkpoint=variables.get("HOLDFAST_CHECKPOINT", ""),
            control=variables.get("HOLDFAST_CONTROL", ""),
        )
