"""Settings that the runner passes to a driver through environment variables. They are absent under bare `spark-submit`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.driver_protocol import variables as names
from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class DriverEnvironment:
    """Settings of one driver. The runner writes them, the driver and the Kafka monitor read them."""

    job: str = ""
    name: str = ""
    attempt: int = 0
    """Attempt number. It grows from each attempt of a job to the next, so sinks may use it as a fencing token. 0: no runner."""
    ancestors: tuple[str, ...] = ()
    """Jobs whose checkpoint this job was restored from, newest first."""
    node: str = ""
    checkpoint: str = ""
    """Root of this job's checkpoints: a path or URI that Spark understands."""
    storage: str = ""
    """Root of the cluster's shared storage: a path or URI."""
    control_directory: str = ""
    """Directory of the control files, through which the runner and the driver communicate."""
    claim_locations: bool = False
    """True if the driver must ask the runner before a query uses a checkpoint location outside of `checkpoint`."""

    @property
    def supervised(self) -> bool:
        """True if a runner has started this process."""
        return bool(self.job)

    @property
    def can_be_monitored(self) -> bool:
        """True if the Kafka monitor has all the settings that it needs."""
        return bool(self.storage and self.checkpoint and self.control_directory)

    @staticmethod
    def from_variables(variables: Mapping[str, str] | None = None) -> "DriverEnvironment":
        """Read the settings from `variables`, by default this process's environment. Raise Refused for an invalid attempt."""
        variables = os.environ if variables is None else variables
        attempt = variables.get(names.ATTEMPT) or "0"
        if not (attempt.isascii() and attempt.isdigit()):
            raise Refused(f"{names.ATTEMPT} is '{attempt}', which is not an attempt number")
        return DriverEnvironment(
            job=variables.get(names.JOB, ""),
            name=variables.get(names.JOB_NAME, ""),
            attempt=int(attempt),
            ancestors=tuple(filter(None, variables.get(names.ANCESTORS, "").split(","))),
            node=variables.get(names.NODE, ""),
            checkpoint=variables.get(names.CHECKPOINT, ""),
            storage=variables.get(names.STORAGE, ""),
            control_directory=variables.get(names.CONTROL_DIRECTORY, ""),
            claim_locations=variables.get(names.CLAIM_LOCATIONS) == "1",
        )

    def to_variables(self) -> dict[str, str]:
        return {
            names.JOB: self.job,
            names.JOB_NAME: self.name,
            names.ATTEMPT: str(self.attempt),
            names.ANCESTORS: ",".join(self.ancestors),
            names.NODE: self.node,
            names.CHECKPOINT: self.checkpoint,
            names.STORAGE: self.storage,
            names.CONTROL_DIRECTORY: self.control_directory,
            names.CLAIM_LOCATIONS: "1" if self.claim_locations else "",
        }


def is_guard_disabled(guard: str, variables: Mapping[str, str]) -> bool:
    """Return True if the job has disabled this guard by name."""
    return guard in variables.get(names.GUARDS_OFF, "").replace(",", " ").split()
