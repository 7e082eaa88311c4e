"""Package of a declarative pipeline: its specification and the files that it lists, checked and packed into one zip file."""

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
"""Earliest time that a zip file can contain. With a fixed time, the same files always pack into the same bytes."""


@dataclass(frozen=True, slots=True)
class PipelinePackage:
    file: Path
    """Specification of the pipeline."""
    name: str
    definitions: tuple[Path, ...]
    """Python and SQL files that the specification lists."""

    def pack(self) -> Path:
        """Pack all files into a temporary zip file, which is deleted when the process exits."""
        directory = tempfile.mkdtemp(prefix="holdfast-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        packed = Path(directory) / "pipeline.zip"
        root = self.file.parent
        with zipfile.ZipFile(packed, "w") as archive:
            for path in (self.file, *self.definitions):
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), date_time=_EPOCH)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, _read_content(path))
        return packed


def read_pipeline(file: Path, check_program: Callable[[Path, str], None]) -> PipelinePackage:
    """Read and check a pipeline. Raise Refused with the first problem; problems that only Spark can detect stay undetected."""
    specification = _load_specification(file)
    if unknown := [str(key) for key in specification if key not in KEYS]:
        raise Refused(f"{file} has the unknown key '{unknown[0]}'; the keys of a pipeline are {', '.join(KEYS)}")
    name = specification.get("name")
    if not isinstance(name, str) or not name:
        raise Refused(f"{file} has no name: add 'name: NAME'")
    definitions = sorted({path for pattern in _read_patterns(file, specification) for path in _match_files(file, pattern)})
    if not definitions:
        raise Refused(f"{file} names no files: add them to its libraries, such as '- glob: {{include: transformations/**}}'")
    if len(definitions) > FILES_MAX:
        raise Refused(f"{file} names {len(definitions):,} files, and {FILES_MAX:,} are allowed")
    for path in definitions:
        _check_definition(file, path, check_program)
    return PipelinePackage(file, name, tuple(definitions))


def _load_specification(file: Path) -> dict[Any, Any]:
    try:
        import yaml
    except ImportError:
        raise Refused(f"{file} needs PyYAML, which is not installed: install holdfast[pipelines]") from None
    content = _read_content(file, SPEC_BYTES_MAX)
    try:
        specification = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise Refused(f"{file} is not YAML{where}: {getattr(error, 'problem', None) or type(error).__name__}") from None
    if not isinstance(specification, dict):
        raise Refused(f"{file} is not a pipeline specification: that is a mapping with a name, libraries and further keys")
    return specification


def _read_patterns(file: Path, specification: dict[Any, Any]) -> Iterator[str]:
    libraries = specification.get("libraries") or []
    if not isinstance(libraries, list):
        raise Refused(f"the libraries in {file} are not a list")
    for entry in libraries:
        pattern = entry.get("glob") if isinstance(entry, dict) else None
        include = pattern.get("include") if isinstance(pattern, dict) else None
        if not isinstance(include, str) or not include:
            raise Refused(f"{file} has an entry in its libraries that is not '- glob: {{include: PATH}}': {entry!r}"[:300])
        yield include


def _match_files(file: Path, pattern: str) -> list[Path]:
    """Return the files that a pattern matches: like Spark, accept a file, or a folder followed by `/**`."""
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise Refused(f"{file} names '{pattern}', which is outside of its directory")
    folder = pattern.removesuffix("/**")
    if glob.has_magic(folder):
        raise Refused(f"{file} names '{pattern}': Spark accepts a file, or a folder followed by '/**'")
    matches = file.parent.glob(f"{pattern}/*") if folder != pattern else iter([file.parent / pattern])
    files = [path for path in matches if path.is_file() and "__pycache__" not in path.parts]
    if not files:
        raise Refused(f"{file} names '{pattern}', and there is no such file in its directory")
    return files


def _check_definition(file: Path, path: Path, check_program: Callable[[Path, str], None]) -> None:
    if not path.resolve().is_relative_to(file.parent.resolve()):
        raise Refused(f"{path} is a link to a file outside of the directory of {file}")
    if path.suffix not in DEFINITIONS:
        raise Refused(
            f"{file} names {path}, which is neither Python nor SQL: a pipeline consists of {' and '.join(DEFINITIONS)} files"
        )
    if path.suffix == ".py":
        check_program(path, "file")


def _read_content(path: Path, bytes_max: int | None = None) -> bytes:
    try:
        if bytes_max is not None and path.stat().st_size > bytes_max:
            raise Refused(f"{path} is larger than {bytes_max:,} bytes, so it is not a pipeline specification")
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
