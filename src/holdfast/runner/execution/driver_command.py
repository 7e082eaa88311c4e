"""Command of a driver: its code, its arguments and its environment."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.driver.declarative_pipeline import is_pipeline
from holdfast.driver_protocol import variables
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.errors import Refused
from holdfast.model import job_settings
from holdfast.model.job import Spec
from holdfast.runner.attempt_layout import (
    CODE_DIRECTORY,
    CONTROL_DIRECTORY,
    PIPELINE_PACKAGE,
    SCRATCH_DIRECTORY,
    WORK_DIRECTORY,
)
from holdfast.runner.cds.archive import ArchiveDirectory, java_options
from holdfast.runner.execution.pipeline_archive import unpack_pipeline
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.yarn.hadoop_configuration import qualify_local_path
from holdfast.runner.yarn.yarn_settings import yarn_conf
from holdfast.storage import Storage, spark_checkpoint_uri, spark_conf

CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"
SPARK_DEFAULTS = (
    # The UI would get another port at each attempt, and it delays the start by a second.
    ("spark.ui.enabled", "false"),
    ("spark.ui.showConsoleProgress", "false"),
)
JAVA_OPTIONS_CONF = "spark.driver.extraJavaOptions"
JAVA_OPTIONS = ("-XX:+ExitOnOutOfMemoryError",)
"""A JVM that has run out of memory often hangs instead of ending, so it must exit at once."""
PYTHON_CONF = "spark.pyspark.python"
"""Python of the executors. Spark ignores it unless Spark itself starts the driver's Python, so the runner applies it."""
MONITOR_VARIABLES = {
    job_settings.GUARDS_OFF: variables.GUARDS_OFF,
    job_settings.KAFKA_GRACE: variables.KAFKA_GRACE,
    job_settings.KAFKA_AWAY: variables.KAFKA_AWAY,
    job_settings.KAFKA_CHECK_INTERVAL: variables.KAFKA_CHECK_INTERVAL,
}
"""Settings of a job that its Kafka monitor reads, with the environment variable that carries each."""
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2")


def checkpoint_root(spec: Spec, job: str, storage: str) -> str:
    """Return the root of a job's checkpoints: a path or URI that Spark understands."""
    return dict(spec.conf).get(CHECKPOINT_CONF) or spark_checkpoint_uri(storage, job)


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Directories and settings of a node that all its drivers share."""

    cds_archives: ArchiveDirectory | None = None
    connectors: Path | None = None
    maven_mirror: str = ""
    """Maven repository for connectors; empty for Spark's default."""


NO_NODE_RESOURCES = NodeResources()


class DriverCommand:
    def __init__(
        self,
        assignment: AttemptAssignment,
        spec: Spec,
        directory: Path,
        storage: Storage,
        *,
        resources: NodeResources = NO_NODE_RESOURCES,
    ) -> None:
        self._assignment = assignment
        self._spec = spec
        self._directory = directory
        self._storage = storage
        self._resources = resources
        root = checkpoint_root(spec, assignment.job, str(storage.location))
        self.checkpoint = qualify_local_path(root, os.environ, dict(spec.conf))
        self.work_directory = directory / WORK_DIRECTORY
        self.scratch_directory = directory / SCRATCH_DIRECTORY
        self.cds_archive: Path | None = None
        """Class archive that the driver uses; set by `build_environment`."""

    @property
    def _script(self) -> Path:
        return self._directory / CODE_DIRECTORY / _require_file_name(self._spec.script)

    @property
    def arguments(self) -> list[str]:
        return [sys.executable, "-P", "-m", "holdfast.driver.bootstrap", str(self._script), *self._spec.arguments]

    def fetch_code(self) -> None:
        """Create the attempt's directories and download its code. Blocks. Raises the errors of the storage, and OSError."""
        for folder in (self._script.parent, self.work_directory, self.scratch_directory, self._directory / CONTROL_DIRECTORY):
            folder.mkdir(parents=True, exist_ok=True)
        if is_pipeline(self._spec.script):
            self._storage.fetch(self._spec.blob, self._directory / PIPELINE_PACKAGE)
            unpack_pipeline(self._directory / PIPELINE_PACKAGE, self._script.parent)
        else:
            self._storage.fetch(self._spec.blob, self._script)
        for name, blob in self._spec.py_files:
            self._storage.fetch(blob, self._directory / CODE_DIRECTORY / _require_file_name(name))

    def build_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the node's environment, with Holdfast's own variables replaced by those for the driver."""
        inherited = {name: value for name, value in base.items() if not name.startswith(variables.PREFIX)}
        files = [str(self._directory / CODE_DIRECTORY / _require_file_name(name)) for name, _ in self._spec.py_files]
        importable = [file for file in files if file.endswith((".zip", ".egg", ".whl"))]
        paths = [*importable, *([inherited["PYTHONPATH"]] if inherited.get("PYTHONPATH") else [])]
        archives = self._resources.cds_archives
        self.cds_archive = archives.find_usable(inherited) if archives is not None else None
        return {
            **inherited,
            **self._driver_environment().to_variables(),
            "PYSPARK_PYTHON": dict(self._spec.conf).get(PYTHON_CONF) or sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": self._submit_arguments(files),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.scratch_directory),
            **self._connector_variables(),
            **self._monitor_variables(),
            **({"PYTHONPATH": ":".join(paths)} if paths else {}),
        }

    def _driver_environment(self) -> DriverEnvironment:
        return DriverEnvironment(
            job=self._assignment.job,
            name=self._spec.name,
            attempt=self._assignment.attempt,
            ancestors=tuple(self._spec.ancestors),
            node=self._assignment.node,
            checkpoint=self.checkpoint,
            storage=str(self._storage.location),
            control_directory=str(self._directory / CONTROL_DIRECTORY),
            claim_locations=True,
        )

    def _monitor_variables(self) -> dict[str, str]:
        own = {name: value for name, value in self._spec.conf if name in MONITOR_VARIABLES}
        for name, value in own.items():
            job_settings.check_setting(name, value)
        return {MONITOR_VARIABLES[name]: value for name, value in own.items()}

    def _connector_variables(self) -> dict[str, str]:
        resources = self._resources
        if resources.connectors is None:
            return {}
        mirror = {variables.MAVEN_MIRROR: resources.maven_mirror} if resources.maven_mirror else {}
        choice = dict(self._spec.conf).get(job_settings.KAFKA_CONNECTOR, "")
        return {variables.CONNECTORS: str(resources.connectors), variables.KAFKA_CONNECTOR: choice, **mirror}

    def _submit_arguments(self, files: list[str]) -> str:
        job_conf = dict(self._spec.conf)
        conf = {
            **dict(SPARK_DEFAULTS),
            **spark_conf(str(self._storage.location)),
            "spark.app.name": self._spec.name,
            CHECKPOINT_CONF: self.checkpoint,
            **job_conf,
            **yarn_conf(job_conf, self._assignment.job, self._assignment.attempt),
        }
        scratch = f"-Djava.io.tmpdir={self.scratch_directory}"  # Spark puts its own temporary directories there too
        java = shlex.join([*JAVA_OPTIONS, scratch, *(java_options(self.cds_archive) if self.cds_archive is not None else ())])
        # The last of two contradicting options wins, so the job's own options come last.
        conf[JAVA_OPTIONS_CONF] = " ".join(filter(None, [java, job_conf.get(JAVA_OPTIONS_CONF)]))
        arguments: list[str] = []
        if "spark.master" in conf:
            arguments += ["--master", conf.pop("spark.master")]
        if python_files := [file for file in files if not file.endswith(ARCHIVE_SUFFIXES)]:
            arguments += ["--py-files", ",".join(python_files)]
        if archives := [file for file in files if file.endswith(ARCHIVE_SUFFIXES)]:
            arguments += ["--archives", ",".join(archives)]
        for name, value in conf.items():
            if not name.startswith("holdfast."):
                arguments += ["--conf", f"{name}={value}"]
        return shlex.join([*arguments, "pyspark-shell"])


def _require_file_name(name: str) -> str:
    """Return `name` if it is a plain file name. Raise Refused if it could lead to another directory."""
    if Path(name).name != name or name in ("", ".", ".."):
        raise Refused(f"'{name}' is not a file name")
    return name
