"""Archive of the modules that Spark workers need: they have Python, numpy, pyarrow and numba, but possibly no Holdfast."""

import zipfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

NAME = "holdfast.zip"
PARTS = ("__init__.py", "errors.py", "explain")
_SUFFIXES = (".py", ".toml")
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def write_worker_archive(directory: Path) -> Path:
    """Write the archive into the directory and return its path. The same modules always give the same bytes."""
    root = resources.files("holdfast")
    archive = directory / NAME
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for part in PARTS:
            for name, entry in _files(root / part, f"holdfast/{part}"):
                file.writestr(zipfile.ZipInfo(name, _FIXED_TIME), entry.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive


def _files(entry: Traversable, name: str) -> "Iterator[tuple[str, Traversable]]":
    if entry.is_dir():
        for inner in sorted(entry.iterdir(), key=lambda inner: inner.name):
            yield from _files(inner, f"{name}/{inner.name}")
    elif name.endswith(_SUFFIXES):
        yield name, entry
