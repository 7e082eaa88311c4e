"""Where an attempt keeps its things on its node."""

from pathlib import Path

from holdfast.model.identifiers import Attempt, JobId

RUN = "run.json"
LOCK = "runner.lock"
SESSION = "session.json"
OUTCOME = "outcome.json"
BURIED = "buried"
DRIVER_LOG = "driver.log"
CONTROL = "control"
CODE = "code"
PACKAGE = "package.zip"
WORK = "work"
SCRATCH = "tmp"
"""What the driver and Spark leave here is removed with the attempt: a killed one clears up nothing itself."""


def attempt_directory(root: Path, job: JobId, attempt: Attempt) -> Path:
    return root / job / str(attempt)
