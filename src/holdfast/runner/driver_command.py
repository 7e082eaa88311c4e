"""How a driver is started: its code, its command line, its environment."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.driver import kafka_connector
from holdfast.driver.declarative_pipeline import is_pipeline
from holdfast.errors import Refused
from holdfast.model import job_settings
from holdfast.model.job import Spec
from holdfast.runner.attempt_layout import CODE, CONTROL, PACKAGE, SCRATCH, WORK
from holdfast.runner.cds.archive import Archives, java_options
from holdfast.runner.lease import Run
from holdfast.runner.pipeline_archive import unpack
from holdfast.storage import Storage, checkpoint_of, spark_conf

CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"
DEFAULTS = (
    # Nobody looks at a page that moves to another port with every attempt, and it costs a second at the start.
    ("spark.ui.enabled", "false"),
    ("spark.ui.showConsoleProgress", "false"),
)
JAVA_OPTIONS_CONF = "spark.driver.extraJavaOptions"
JAVA_OPTIONS = ("-XX:+ExitOnOutOfMemoryError",)
"""A JVM that has run out of memory is of no use to anybody, and its ruins look alive."""
PYTHON_CONF = "spark.pyspark.python"
"""The Python of the executors. Spark heeds it only where it starts that of the driver, too, which is ours to do here."""
GUARD_CONF = {
    job_settings.GUARDS_OFF: "HOLDFAST_GUARDS_OFF",
    job_settings.GRACE: "HOLDFAST_KAFKA_GRACE",
    job_settings.AWAY: "HOLDFAST_KAFKA_AWAY",
    job_settings.CHECK: "HOLDFAST_KAFKA_CHECK",
}
"""How the processes beside a driver are told."""
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2")


def checkpoint_root(spec: Spec, job: str, storage: str) -> str:
    """Of a job's checkpoints, as Spark spells it."""
    return dict(spec.conf).get(CHECKPOINT_CONF) or checkpoint_of(storage, job)


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a node keeps for all drivers."""

    archives: Archives | None = None
    connectors: Path | None = None
    maven: str = ""
    """Where connectors are fetched from, if not from where Spark does by itself."""


NO_SUPPLIES = Supplies()


class Command:
    def __init__(self, run: Run, spec: Spec, directory: Path, storage: Storage, *, supplies: Supplies = NO_SUPPLIES) -> None:
        self._run = run
        self._spec = spec
        self._directory = directory
        self._storage = storage
        self._supplies = supplies
        self.checkpoint = checkpoint_root(spec, run.job, str(storage.location))
        self.work = directory / WORK
        self.scratch = directory / SCRATCH
        self.archive: Path | None = None
        """The class archive that the driver was told to use, once it has its environment."""

    @property
    def _script(self) -> Path:
        return self._directory / CODE / _plain(self._spec.script)

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-P", "-m", "holdfast.driver.bootstrap", str(self._script), *self._spec.arguments]

    def fetch(self) -> None:
        """Blocks. Raises what the storage raises, and OSError."""
        for folder in (self._script.parent, self.work, self.scratch, self._directory / CONTROL):
            folder.mkdir(parents=True, exist_ok=True)
        if is_pipeline(self._spec.script):
            self._storage.fetch(self._spec.blob, self._directory / PACKAGE)
            unpack(self._directory / PACKAGE, self._script.parent)
        else:
            self._storage.fetch(self._spec.blob, self._script)
        for name, blob in self._spec.py_files:
            self._storage.fetch(blob, self._directory / CODE / _plain(name))

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The node's own, without what is meant for the node, and with what is meant for the driver."""
        run = self._run
        kept = {name: value for name, value in base.items() if not name.startswith("HOLDFAST_")}
        files = [str(self._directory / CODE / _plain(name)) for name, _ in self._spec.py_files]
        importable = [file for file in files if file.endswith((".zip", ".egg", ".whl"))]
        paths = [*importable, *([kept["PYTHONPATH"]] if kept.get("PYTHONPATH") else [])]
        archives = self._supplies.archives
        self.archive = archives.find(kept) if archives is not None else None
        return {
            **kept,
            "HOLDFAST_JOB": run.job,
            "HOLDFAST_NAME": self._spec.name,
            "HOLDFAST_ATTEMPT": str(run.attempt),
            "HOLDFAST_ANCESTORS": ",".join(self._spec.ancestors),
            "HOLDFAST_NODE": run.node,
            "HOLDFAST_CHECKPOINT": self.checkpoint,
            "HOLDFAST_STORAGE": str(self._storage.location),
            "HOLDFAST_CONTROL": str(self._directory / CONTROL),
            "PYSPARK_PYTHON": dict(self._spec.conf).get(PYTHON_CONF) or sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": self._submit_arguments(files),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.scratch),
            **self._for_connectors(),
            **self._for_guards(),
            **({"PYTHONPATH": ":".join(paths)} if paths else {}),
        }

    def _for_guards(self) -> dict[str, str]:
        own = {name: value for name, value in self._spec.conf if name in GUARD_CONF}
        for name, value in own.items():
            job_settings.check(name, value)
        return {GUARD_CONF[name]: value for name, value in own.items()}

    def _for_connectors(self) -> dict[str, str]:
        supplies = self._supplies
        if supplies.connectors is None:
            return {}
        mirror = {kafka_connector.MIRROR: supplies.maven} if supplies.maven else {}
        said = dict(self._spec.conf).get(job_settings.CONNECTOR, "")
        return {"HOLDFAST_CONNECTORS": str(supplies.connectors), "HOLDFAST_KAFKA_CONNECTOR": said, **mirror}

    def _submit_arguments(self, files: list[str]) -> str:
        own = dict(self._spec.conf)
        conf = {
            **dict(DEFAULTS),
            **spark_conf(str(self._storage.location)),
            "spark.app.name": self._spec.name,
            CHECKPOINT_CONF: self.checkpoint,
            **own,
        }
        # The job's own come last, since the last one counts.
        scratch = f"-Djava.io.tmpdir={self.scratch}"  # Spark's own directories follow it
        java = shlex.join([*JAVA_OPTIONS, scratch, *(java_options(self.archive) if self.archive is not None else ())])
        conf[JAVA_OPTIONS_CONF] = " ".join(filter(None, [java, own.get(JAVA_OPTIONS_CONF)]))
        arguments: list[str] = []
        if "spark.master" in conf:
            arguments += ["--master", conf.pop("spark.master")]
        if python_files := [file for file in files if not file.endswith(ARCHIVES)]:
            arguments += ["--py-files", ",".join(python_files)]
        if archives := [file for file in files if file.endswith(ARCHIVES)]:
            arguments += ["--archives", ",".join(archives)]
        for name, value in conf.items():
            if not name.startswith("holdfast."):
                arguments += ["--conf", f"{name}={value}"]
        return shlex.join([*arguments, "pyspark-shell"])


def _plain(name: str) -> str:
    """A file name that stays where it is put."""
    if Path(name).name != name or name in ("", ".", ".."):
        raise Refused(f"'{name}' is not the name of a file")
    return name
