"""Where an attempt keeps its things on its node."""

from pathlib import Path

from holdfast.model.names import Attempt, JobId

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


def attempt_directory(root: Path, job: JobId, attempt: Attempt) -> Path:
    return root / job / str(attempt)
