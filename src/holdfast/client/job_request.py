"""What somebody wants to submit, checked before anything is sent anywhere."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.client.pipeline_package import read_pipeline
from holdfast.driver.declarative_pipeline import is_pipeline
from holdfast.errors import Refused
from holdfast.model import job_settings
from holdfast.model.codec import encode
from holdfast.model.identifiers import is_name
from holdfast.model.job import Spec
from holdfast.model.restart_strategy import parse as parse_restart_strategy

SCRIPT_BYTES_MAX = 8 * 1024 * 1024
SPEC_BYTES_MAX = 900_000
"""ZooKeeper takes a megabyte at once, and the other parts of a job need some of it."""
NAME_LENGTH_MAX = 64
OWNED = {
    "spark.sql.streaming.checkpointLocation": "each job has a checkpoint of its own, which Holdfast keeps",
    "spark.submit.pyFiles": "--py-files is for that",
}
"""Settings that are not a job's to make, and why."""
DEPLOY_MODE = "spark.submit.deployMode"
PACKED = (".py", ".zip", ".egg", ".whl")


@dataclass(frozen=True, slots=True)
class Proposal:
    name: str
    script: Path
    code: Path
    """What is stored of it: the script itself, or a pipeline with all of its files."""
    restart: str
    slots: int
    arguments: tuple[str, ...]
    conf: tuple[tuple[str, str], ...]
    py_files: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.code, *self.py_files)

    def spec(self, blobs: Mapping[Path, str]) -> Spec:
        return Spec(
            name=self.name,
            script=self.script.name,
            blob=blobs[self.code],
            restart=self.restart,
            slots=self.slots,
            arguments=self.arguments,
            conf=self.conf,
            py_files=tuple((file.name, blobs[file]) for file in self.py_files),
        )


def propose(
    script: Path,
    *,
    name: str | None,
    restart_strategy: str,
    slots: int,
    arguments: Sequence[str],
    conf: Sequence[str],
    py_files: Sequence[Path],
) -> Proposal:
    """Raises Refused, with the first thing that is wrong."""
    for text in (str(script), *arguments, *conf, *map(str, py_files)):
        _check_text(text)
    code, called = _code(script, arguments)
    for file in py_files:
        _check_py_file(file)
    _check_names_differ((script, *py_files))
    parse_restart_strategy(restart_strategy)
    proposal = Proposal(
        name=_checked_name(name) if name is not None else name_after(called),
        script=script,
        code=code,
        restart=restart_strategy,
        slots=slots,
        arguments=tuple(arguments),
        conf=_conf(conf),
        py_files=tuple(py_files),
    )
    size = len(encode(proposal.spec(dict.fromkeys(proposal.files, "0" * 64))))
    if size > SPEC_BYTES_MAX:
        raise Refused(
            f"the job's arguments and settings take {size:,} bytes, and {SPEC_BYTES_MAX:,} are allowed: put them into a file"
        )
    return proposal


def _code(script: Path, arguments: Sequence[str]) -> tuple[Path, str]:
    """What is to be stored, and what it is called by itself."""
    if not is_pipeline(script.name):
        _check_program(script, "script")
        return script, script.stem
    _check_is_file(script, "pipeline")
    if arguments:
        raise Refused(f"a pipeline takes no arguments: what it needs belongs into the configuration in {script}")
    pipeline = read_pipeline(script, _check_program)
    return pipeline.pack(), pipeline.name


def name_after(called: str) -> str:
    """What a job is called if nobody says: like its script or pipeline, as far as that can be a name."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", called).strip("._-")[:NAME_LENGTH_MAX].strip("._-")
    return name or "job"


def _checked_name(name: str) -> str:
    if not is_name(name):
        raise Refused(f"'{name}' cannot be the name of a job: letters, digits, '.', '_' and '-', {NAME_LENGTH_MAX} at most")
    return name


def _check_text(text: str) -> None:
    """What a shell passes on need not be text, and what is not text cannot be written down."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{text!r} is not valid UTF-8 text") from None


def _check_program(path: Path, what: str) -> None:
    _check_is_file(path, what)
    try:
        source = path.read_bytes() if path.stat().st_size <= SCRIPT_BYTES_MAX else None
    except OSError as error:
        raise Refused(f"cannot read the {what} {path}: {error.strerror}") from error
    if source is None:
        raise Refused(f"the {what} {path} is larger than {SCRIPT_BYTES_MAX // 1024 // 1024} MB: that is no program")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise Refused(f"the {what} {path} is not Python{where}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise Refused(f"the {what} {path} is not Python: {error or type(error).__name__}") from error


def _check_is_file(path: Path, what: str) -> None:
    try:
        if path.is_dir():
            raise Refused(f"the {what} {path} is a directory")
        if not path.exists():
            raise Refused(f"there is no file {path}" + ("; say --py-files once for each file" if "," in str(path) else ""))
        if not path.is_file():
            raise Refused(f"the {what} {path} is not a regular file")
    except OSError as error:
        raise Refused(f"cannot look at the {what} {path}: {error.strerror}") from error


def _check_py_file(path: Path) -> None:
    if path.suffix == ".py":
        _check_program(path, "file")
        return
    _check_is_file(path, "file")
    if path.suffix not in PACKED:
        raise Refused(f"{path} cannot be one of --py-files: {', '.join(PACKED)} can")


def _check_names_differ(files: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for file in files:
        if file.name in seen:
            raise Refused(f"{seen[file.name]} and {file} have the same name, and would be put into the same place")
        seen[file.name] = file


def _conf(settings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    conf: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise Refused(f"--conf '{setting}' is not KEY=VALUE")
        if key.startswith(job_settings.PREFIX):
            job_settings.check(key, value)
        elif not key.startswith("spark.") or len(key.split()) != 1:
            raise Refused(f"--conf '{key}' is no setting of Spark: they begin with 'spark.'")
        if key == DEPLOY_MODE and value.strip() != "client":
            raise Refused(f"--conf '{key}' can only be client: the driver runs on a node of Holdfast, whatever the master is")
        if key in OWNED:
            raise Refused(f"--conf '{key}' cannot be set: {OWNED[key]}")
        if key in conf:
            raise Refused(f"--conf '{key}' is given twice")
        conf[key] = value
    return tuple(conf.items())
