"""Files of a checkpoint that name absolute paths, and where in them.

- Metadata of an operator, `state/OPERATOR/_metadata/v2/BATCH`: schema files of its state (transformWithState, and
  joins with state format 3). Spark 4 reads them when a query starts. They are in `state/OPERATOR/_stateSchema`.
- Log of a file source, `sources/SOURCE/N`, and of a file sink, `_spark_metadata/N`: the files of the input and of the output.
  They are in the checkpoint only if the job keeps its data there.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_QUERY = r"(?P<query>(?:[^/]+/)*?)"
_OPERATOR_METADATA = re.compile(_QUERY + r"(?P<state>state/[0-9]+)/_metadata/v2/[0-9]+")
_FILE_LOGS = re.compile(r"(?:[^/]+/)*?(?:sources/[^/]+|_spark_metadata)/[0-9]+(?:\.compact)?")

Rename = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NamingFile:
    """File that names absolute paths."""

    schemas: str = ""
    """For the metadata of an operator: folder of its schema files, relative to the root. Empty for a log."""
    schemas_in_query: str = ""
    """The same folder, relative to the query."""

    @property
    def is_log(self) -> bool:
        """True for a log of a file source or of a file sink. Its paths have percent-encoded characters."""
        return not self.schemas


def find_naming_file(path: str) -> NamingFile | None:
    """Return what a file of a checkpoint names, by its path relative to the root, or None if it names no path."""
    if (match := _OPERATOR_METADATA.fullmatch(path)) is not None:
        folder = f"{match['state']}/_stateSchema/"
        return NamingFile(f"{match['query']}{folder}", folder)
    return NamingFile() if _FILE_LOGS.fullmatch(path) is not None else None


def rename_paths(file: NamingFile, value: Any, rename: Rename) -> bool:
    """Replace each path in a parsed line by the result of `rename`, in place. Return True if one has changed."""
    if not isinstance(value, dict):
        return False
    if file.is_log:
        return _rename_entry(value, "path", rename)
    stores = value.get("stateStoreInfo")
    changes = [_rename_schemas(store, rename) for store in stores] if isinstance(stores, list) else []
    return any(changes)


def _rename_schemas(store: Any, rename: Rename) -> bool:
    if not isinstance(store, dict):
        return False
    paths = store.get("stateSchemaFilePaths")
    changes = [_rename_entry(paths, position, rename) for position in range(len(paths))] if isinstance(paths, list) else []
    return any([*changes, _rename_entry(store, "stateSchemaFilePath", rename)])  # previews of Spark 4.0 have one path


def _rename_entry(container: Any, key: str | int, rename: Rename) -> bool:
    old = container.get(key) if isinstance(container, dict) else container[key]
    if not isinstance(old, str):
        return False
    container[key] = rename(old)
    return bool(container[key] != old)
