"""Request to run a program as a job. It is checked completely before anything is sent to the cluster."""

import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.client.deployment.master_settings import check_master_settings
from holdfast.client.deployment.pipeline_package import read_pipeline
from holdfast.driver.declarative_pipeline import is_pipeline
from holdfast.errors import Refused
from holdfast.model import job_settings
from holdfast.model.codec import encode
from holdfast.model.identifiers import is_valid_name
from holdfast.model.job import Spec
from holdfast.model.restart_strategy import DEFAULT_STRATEGY
from holdfast.model.restart_strategy import parse_strategy as parse_restart_strategy
from holdfast.model.schedule.due_times import Schedule

SCRIPT_BYTES_MAX = 8 * 1024 * 1024
SLOTS_MAX = 1000
SPEC_BYTES_MAX = 900_000
"""ZooKeeper accepts 1 MB per request, and the other records of the job are part of the same request."""
NAME_LENGTH_MAX = 64
OWNED = {
    "spark.sql.streaming.checkpointLocation": "Holdfast gives each job its own checkpoint",
    "spark.submit.pyFiles": "use --py-files instead",
}
"""Spark settings that a job cannot set, with the reason."""
DEPLOY_MODE = "spark.submit.deployMode"
PACKED = (".py", ".zip", ".egg", ".whl")


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Checked request for a job."""

    name: str
    script: Path
    code: Path
    """File to upload: the script, or a zip file with a pipeline and all of its files."""
    restart: str | None
    """Restart strategy; None if the submitter chose none."""
    slots: int
    arguments: tuple[str, ...]
    conf: tuple[tuple[str, str], ...]
    py_files: tuple[Path, ...]
    schedule: Schedule | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.code, *self.py_files)

    def spec(self, blobs: Mapping[Path, str]) -> Spec:
        return Spec(
            name=self.name,
            script=self.script.name,
            blob=blobs[self.code],
            restart=self.restart or DEFAULT_STRATEGY,
            restart_is_default=self.restart is None,
            slots=self.slots,
            arguments=self.arguments,
            conf=self.conf,
            py_files=tuple((file.name, blobs[file]) for file in self.py_files),
            schedule=self.schedule,
        )


def check_request(
    script: Path,
    *,
    name: str | None,
    restart_strategy: str | None,
    slots: int,
    arguments: Sequence[str],
    conf: Mapping[str, str],
    py_files: Sequence[Path],
    schedule: Schedule | None = None,
) -> JobRequest:
    """Check everything about a job that can be checked without the cluster. Raise Refused with the first problem."""
    for text in (str(script), *arguments, *conf, *conf.values(), *map(str, py_files)):
        _check_text(text)
    code, default_name = _find_code(script, arguments)
    for file in py_files:
        _check_py_file(file)
    _check_names_differ((script, *py_files))
    parse_restart_strategy(restart_strategy or DEFAULT_STRATEGY)
    if not 1 <= slots <= SLOTS_MAX:
        raise Refused(f"a job takes 1 to {SLOTS_MAX} slots, not {slots}")
    request = JobRequest(
        name=_checked_name(name) if name is not None else _make_name(default_name),
        script=script,
        code=code,
        restart=restart_strategy,
        slots=slots,
        arguments=tuple(arguments),
        conf=_check_conf(conf),
        py_files=tuple(py_files),
        schedule=schedule,
    )
    size = len(encode(request.spec(dict.fromkeys(request.files, "0" * 64))))
    if size > SPEC_BYTES_MAX:
        raise Refused(
            f"the job's arguments and settings take {size:,} bytes, and {SPEC_BYTES_MAX:,} are allowed: put them into a file, "
            "for example with --py-files"
        )
    return request


def check_upgrade(
    script: Path, *, restart_strategy: str | None, arguments: Sequence[str], conf: Mapping[str, str], py_files: Sequence[Path]
) -> JobRequest:
    """Check the new program of an existing job, like `check_request`. The job keeps its name and its slots."""
    return check_request(
        script,
        name=None,
        restart_strategy=restart_strategy,
        slots=1,
        arguments=arguments,
        conf=conf,
        py_files=py_files,
    )


def _find_code(script: Path, arguments: Sequence[str]) -> tuple[Path, str]:
    """Return the file to upload and the default name of the job."""
    if not is_pipeline(script.name):
        _check_program(script, "script")
        return script, script.stem
    _check_is_file(script, "pipeline")
    if arguments:
        raise Refused(f"a pipeline takes no arguments: put its settings into the configuration in {script}")
    pipeline = read_pipeline(script, _check_program)
    return pipeline.pack(), pipeline.name


def _make_name(text: str) -> str:
    """Turn the name of a script or a pipeline into a valid job name."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", text).strip("._-")[:NAME_LENGTH_MAX].strip("._-")
    return name or "job"


def _checked_name(name: str) -> str:
    if not is_valid_name(name):
        raise Refused(f"'{name}' cannot be the name of a job: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' or '-'")
    return name


def _check_text(text: str) -> None:
    """Raise Refused for text that is not valid UTF-8: a shell can pass arbitrary bytes."""
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
        raise Refused(f"the {what} {path} is larger than {SCRIPT_BYTES_MAX // 1024 // 1024} MB, so it is not a Python program")
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
            raise Refused(f"there is no file {path}" + ("; use --py-files once for each file" if "," in str(path) else ""))
        if not path.is_file():
            raise Refused(f"the {what} {path} is not a regular file")
    except OSError as error:
        raise Refused(f"cannot read the {what} {path}: {error.strerror}") from error


def _check_py_file(path: Path) -> None:
    if path.suffix == ".py":
        _check_program(path, "file")
        return
    _check_is_file(path, "file")
    if path.suffix not in PACKED:
        raise Refused(f"{path} cannot be one of --py-files: only {', '.join(PACKED)} files can be imported")
    if not zipfile.is_zipfile(path):
        raise Refused(f"{path} cannot be one of --py-files: it is not a zip archive, or it is damaged")


def _check_names_differ(files: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for file in files:
        if file.name in seen:
            raise Refused(
                f"{seen[file.name]} and {file} have the same name: rename one, because both are put into one directory"
            )
        seen[file.name] = file


def parse_conf_options(options: Sequence[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` options. Raise Refused if one has another form or a key is given twice."""
    conf: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        key = key.strip()
        if not equals or not key:
            raise Refused(f"--conf '{option}' is not of the form KEY=VALUE")
        if key in conf:
            raise Refused(f"--conf '{key}' is given twice")
        conf[key] = value
    return conf


def _check_conf(conf: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for key, value in conf.items():
        if key.startswith(job_settings.PREFIX):
            job_settings.check_setting(key, value)
        elif not key.startswith("spark.") or len(key.split()) != 1:
            raise Refused(f"--conf '{key}' is not a Spark setting: these begin with 'spark.'")
        if key == DEPLOY_MODE and value.strip() != "client":
            raise Refused(f"--conf '{key}' can only be 'client': the driver always runs on a node of Holdfast")
        if key in OWNED:
            raise Refused(f"--conf '{key}' cannot be set: {OWNED[key]}")
    check_master_settings(conf)
    return tuple(conf.items())
