"""Settings of the Kafka monitor, from the environment that the runner sets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.driver_protocol import variables as names
from holdfast.kafka.check.park_policy import CHECK_S, GRACE_S, ParkPolicy
from holdfast.model.duration import parse_duration


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    job: str
    storage: str
    checkpoint: str
    """Root of the job's checkpoints, as Spark spells it."""
    control: Path
    grace_s: float = GRACE_S
    away_s: float = math.inf
    check_s: float = CHECK_S

    @staticmethod
    def from_environment(variables: Mapping[str, str]) -> "MonitorSettings":
        """Read the settings. Raise Refused for an invalid duration, and KeyError outside of a runner's environment."""

        def duration(name: str, default: float) -> float:
            return parse_duration(variables[name]) if variables.get(name) else default

        return MonitorSettings(
            job=variables[names.JOB],
            storage=variables[names.STORAGE],
            checkpoint=variables[names.CHECKPOINT],
            control=Path(variables[names.CONTROL_DIRECTORY]),
            grace_s=duration(names.KAFKA_GRACE, GRACE_S),
            away_s=duration(names.KAFKA_AWAY, math.inf),
            check_s=duration(names.KAFKA_CHECK_INTERVAL, CHECK_S),
        )

    def park_policy(self) -> ParkPolicy:
        return ParkPolicy(grace_s=self.grace_s, away_s=self.away_s, check_s=self.check_s)
