"""Warnings about modules that a script imports from files beside it, which are not stored with the job."""

import ast
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path


def find_missing_modules(tree: ast.AST, script: Path, py_files: Sequence[Path]) -> Iterator[tuple[int, str]]:
    """Yield (line, problem) for the first import of each such module. A script that changes `sys.path` has no warnings."""
    if any(isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path" for node in ast.walk(tree)):
        return
    stored = {module for file in py_files for module in _modules_in(file)}
    lines: dict[str, int] = {}
    for module, line in _imports(tree):
        lines[module] = min(line, lines.get(module, line))
    for module, line in lines.items():
        if module not in stored and module not in sys.stdlib_module_names and (problem := _beside(script.parent, module)):
            yield line, problem


def _imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the top-level module and the line of each absolute import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0], node.lineno


def _beside(directory: Path, module: str) -> str | None:
    """Return the problem of a module that is in a directory, or None if it is not there."""
    if (directory / module / "__init__.py").is_file():
        package = directory / module
        return f"the package {package} is imported and not stored with the job: pack it into a .zip, and add it with --py-files"
    file = directory / f"{module}.py"
    return f"{file} is imported and not stored with the job: add --py-files {file}" if file.is_file() else None


def _modules_in(file: Path) -> set[str]:
    """Return the top-level modules that a file of --py-files provides."""
    if file.suffix == ".py":
        return {file.stem}
    try:
        with zipfile.ZipFile(file) as archive:
            return {name.partition("/")[0].removesuffix(".py") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return set()
