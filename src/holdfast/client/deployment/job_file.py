"""Job files: one TOML file per job, named after the job."""

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.client.deployment.job_request import JobRequest, check_request
from holdfast.errors import Refused
from holdfast.model.job import Spec
from holdfast.model.schedule.due_times import make_schedule

SUFFIX = ".toml"
KEYS: dict[str, type] = {
    "name": str,
    "script": str,
    "restart": str,
    "slots": int,
    "arguments": list,
    "py_files": list,
    "conf": dict,
    "every": str,
    "cron": str,
    "timezone": str,
    "catch_up": str,
    "park_after": int,
}


@dataclass(frozen=True, slots=True)
class JobFile:
    path: Path
    request: JobRequest
    spec: Spec
    """Spec that submitting the file would write."""


def read_directory(directory: Path) -> list[JobFile]:
    """Read all job files of a directory. Raise Refused with the problems of all files."""
    if not directory.is_dir():
        raise Refused(f"{directory} is not a directory")
    files: list[JobFile] = []
    problems: list[str] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            files.append(read_job_file(path))
        except Refused as error:
            problems.append(f"{path}: {error}")
    owners: dict[str, Path] = {}
    for file in files:
        other = owners.setdefault(file.spec.name, file.path)
        if other != file.path:
            problems.append(f"{file.path}: {other} describes a job of the same name, '{file.spec.name}'")
    if problems:
        raise Refused("\n".join(problems))
    return files


def read_job_file(path: Path) -> JobFile:
    try:
        fields = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"the file is not valid TOML: {error}") from error
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}") from error
    _check(fields)
    request = check_request(
        path.parent / fields["script"],
        name=fields.get("name", path.name.removesuffix(SUFFIX)),
        restart_strategy=fields.get("restart"),
        slots=fields.get("slots", 1),
        arguments=[_text(argument) for argument in fields.get("arguments", [])],
        conf={key.strip(): _text(value) for key, value in fields.get("conf", {}).items()},
        py_files=[path.parent / _text(file) for file in fields.get("py_files", [])],
        schedule=make_schedule(
            every=fields.get("every"),
            cron_text=fields.get("cron"),
            timezone=fields.get("timezone"),
            catch_up=fields.get("catch_up"),
            park_after=fields.get("park_after"),
        ),
    )
    return JobFile(path, request, request.spec({file: _digest(file) for file in request.files}))


def _check(fields: dict[str, Any]) -> None:
    if unknown := sorted(set(fields) - set(KEYS)):
        raise Refused(f"unknown key '{unknown[0]}'; the keys are {', '.join(KEYS)}")
    if "script" not in fields:
        raise Refused("the key 'script' is missing")
    for key, kind in KEYS.items():
        if key in fields and (not isinstance(fields[key], kind) or isinstance(fields[key], bool)):
            raise Refused(f"'{key}' must be a {_NAMES[kind]}")
    if not 1 <= fields.get("slots", 1) <= 1000:
        raise Refused("'slots' must be 1 to 1000")


_NAMES: dict[type, str] = {str: "text", int: "number", list: "list", dict: "table"}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise Refused(f"{value!r} must be text or a number")


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as reader:
            return hashlib.file_digest(reader, "sha256").hexdigest()
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from error
