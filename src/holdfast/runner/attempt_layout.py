"""Files and directories of an attempt on its node."""

from pathlib import Path

from holdfast.model.identifiers import Attempt, JobId

RUN_FILE = "run.json"
"""Assignment of the attempt. Writer: the node's agent. Reader: the runner."""
RUNNER_LOCK = "runner.lock"
"""File that the runner keeps locked while it is alive."""
SESSION_FILE = "session.json"
"""Id and password of the runner's ZooKeeper session, with which the agent closes the session of a dead runner."""
PROCESSES_FILE = "processes.json"
"""Watchdog, and PID namespace or cgroup, of the attempt (`process_file`). Writer: the runner. Reader: the agent."""
PROMISES_WANTED = "promises-wanted"
"""Empty file. The runner changes its modification time while the attempt needs failsafe promises. Reader: the agent."""
GRANTED_PROMISES = "granted-promises.json"
"""Failsafe promises of all nodes for this attempt. Writer: the agent. Reader: the runner."""
OUTCOME_FILE = "outcome.json"
CLOSED_MARKER = "buried"
"""Empty file: the agent has reported the attempt's end, and nothing is left to do."""
DRIVER_LOG = "driver.log"
CONTROL_DIRECTORY = "control"
"""Directory of the control files (`driver_protocol.control_files`)."""
CODE_DIRECTORY = "code"
PIPELINE_PACKAGE = "package.zip"
WORK_DIRECTORY = "work"
SCRATCH_DIRECTORY = "tmp"
"""Temporary directory of the driver and of Spark. The agent removes it, because a killed driver leaves its files behind."""


def attempt_directory(root: Path, job: JobId, attempt: Attempt) -> Path:
    return root / job / str(attempt)
