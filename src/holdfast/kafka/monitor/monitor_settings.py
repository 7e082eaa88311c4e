"""What the runner and the job say about guarding."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.kafka.check.park_policy import CHECK_S, GRACE_S, Patience
from holdfast.model.duration import parse_duration

GRACE, AWAY, CHECK = "HOLDFAST_KAFKA_GRACE", "HOLDFAST_KAFKA_AWAY", "HOLDFAST_KAFKA_CHECK"


@dataclass(frozen=True, slots=True)
class Settings:
    job: str
    storage: str
    checkpoint: str
    """The root of the job's checkpoints, as Spark spells it."""
    control: Path
    grace_s: float = GRACE_S
    away_s: float = math.inf
    check_s: float = CHECK_S

    @staticmethod
    def read(variables: Mapping[str, str]) -> "Settings":
        """Raises Refused for a duration that is none, and KeyError where no runner has set the rest."""

        def duration(name: str, otherwise: float) -> float:
            return parse_duration(variables[name]) if variables.get(name) else otherwise

        return Settings(
            job=variables["HOLDFAST_JOB"],
            storage=variables["HOLDFAST_STORAGE"],
            checkpoint=variables["HOLDFAST_CHECKPOINT"],
            control=Path(variables["HOLDFAST_CONTROL"]),
            grace_s=duration(GRACE, GRACE_S),
            away_s=duration(AWAY, math.inf),
            check_s=duration(CHECK, CHECK_S),
        )

    def patience(self) -> Patience:
        return Patience(grace_s=self.grace_s, away_s=self.away_s, check_s=self.check_s)
