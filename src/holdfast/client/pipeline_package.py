"""A declarative pipeline on its way into a job: its specification and the files that it names, checked and packed into one."""

import atexit
import glob
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import Refused

SPEC_BYTES_MAX = 1024 * 1024
FILES_MAX = 10_000
KEYS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
DEFINITIONS = (".py", ".sql")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""What a zip can tell of as the first. Files that are the same pack into the same bytes, whenever they were written."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    file: Path
    """The specification."""
    name: str
    definitions: tuple[Path, ...]
    """The files that it names."""

    def pack(self) -> Path:
        """One file with all of them in it, which is there until this process ends."""
        directory = tempfile.mkdtemp(prefix="holdfast-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        packed = Path(directory) / "pipeline.zip"
        root = self.file.parent
        with zipfile.ZipFile(packed, "w") as archive:
            for path in (self.file, *self.definitions):
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), date_time=_EPOCH)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, _content(path))
        return packed


def read_pipeline(file: Path, check_program: Callable[[Path, str], None]) -> Pipeline:
    """Raises Refused, with the first thing that is wrong. What only Spark can judge is left to Spark."""
    described = _described(file)
    if unknown := [str(key) for key in described if key not in KEYS]:
        raise Refused(f"{file} has '{unknown[0]}', which pipelines do not know: {', '.join(KEYS)} are what there is")
    name = described.get("name")
    if not isinstance(name, str) or not name:
        raise Refused(f"{file} has no name: a pipeline needs one")
    definitions = sorted({path for pattern in _patterns(file, described) for path in _matching(file, pattern)})
    if not definitions:
        raise Refused(f"{file} names no files: say which in its libraries, as '- glob: {{include: transformations/**}}'")
    if len(definitions) > FILES_MAX:
        raise Refused(f"{file} names {len(definitions):,} files, and {FILES_MAX:,} are allowed")
    for path in definitions:
        _check_definition(file, path, check_program)
    return Pipeline(file, name, tuple(definitions))


def _described(file: Path) -> dict[Any, Any]:
    try:
        import yaml
    except ImportError:
        raise Refused(f"{file} needs PyYAML, which is not installed: install holdfast[pipelines]") from None
    content = _content(file, SPEC_BYTES_MAX)
    try:
        described = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise Refused(f"{file} is not YAML{where}: {getattr(error, 'problem', None) or type(error).__name__}") from None
    if not isinstance(described, dict):
        raise Refused(f"{file} is no pipeline: a specification has a name, libraries and so on")
    return described


def _patterns(file: Path, described: dict[Any, Any]) -> Iterator[str]:
    libraries = described.get("libraries") or []
    if not isinstance(libraries, list):
        raise Refused(f"{file} has libraries that are no list")
    for entry in libraries:
        pattern = entry.get("glob") if isinstance(entry, dict) else None
        include = pattern.get("include") if isinstance(pattern, dict) else None
        if not isinstance(include, str) or not include:
            raise Refused(f"{file} has an entry in its libraries that is not '- glob: {{include: PATH}}': {entry!r}"[:300])
        yield include


def _matching(file: Path, pattern: str) -> list[Path]:
    """As Spark reads it: a file, or a folder and `/**`, which means everything below it."""
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise Refused(f"{file} names '{pattern}', which leads out of its directory")
    folder = pattern.removesuffix("/**")
    if glob.has_magic(folder):
        raise Refused(f"{file} names '{pattern}': Spark takes a file, or a folder and '/**'")
    found = file.parent.glob(f"{pattern}/*") if folder != pattern else iter([file.parent / pattern])
    files = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    if not files:
        raise Refused(f"{file} names '{pattern}', and there is no such file in its directory")
    return files


def _check_definition(file: Path, path: Path, check_program: Callable[[Path, str], None]) -> None:
    if not path.resolve().is_relative_to(file.parent.resolve()):
        raise Refused(f"{path} is a link that leads out of the directory of {file}")
    if path.suffix not in DEFINITIONS:
        raise Refused(
            f"{file} names {path}, which is neither Python nor SQL: {' and '.join(DEFINITIONS)} files are what it takes"
        )
    if path.suffix == ".py":
        check_program(path, "file")


def _content(path: Path, bytes_max: int | None = None) -> bytes:
    try:
        if bytes_max is not None and path.stat().st_size > bytes_max:
            raise Refused(f"{path} is larger than {bytes_max:,} bytes: that is no specification")
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
