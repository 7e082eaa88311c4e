"""Schema files that the metadata of an operator names by absolute paths. Spark reads them there when the query starts.

A checkpoint that was copied by hand names the files of the original. transformWithState fails if one of them is missing. A join
takes a missing one for an empty one, writes a new one, and creates the folder of the missing one. A file with the same name
in the checkpoint is a copy, because the name contains a random UUID.
"""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.checkpoint.damage_rules import STATE_SCHEMA_MISSING
from holdfast.checkpoint.file_tree import ELSEWHERE, HERE, MISSING, FileTree
from holdfast.checkpoint.finding import Finding, damage, doubt, remark
from holdfast.checkpoint.log_files import StatefulOperator, TornFile, UnknownFormat
from holdfast.checkpoint.state.state_schema import read_key_columns

TRANSFORM = "transformWithState"
"""Start of the names of the operators of transformWithState. They differ by language and version."""
JOIN = "symmetricHashJoin"


def check_named_schemas(tree: FileTree, metadata: str, operator: StatefulOperator) -> Iterator[Finding]:
    """Yield findings about the schema files that the metadata of an operator names. `metadata` is the path of its file."""
    for path in dict.fromkeys(operator.schema_files):
        place = tree.named_files.get(path)
        if place != HERE:
            has_copy = _has_copy(tree, metadata, path)
            yield replace(_judge(metadata, operator, path, place, has_copy=has_copy), has_copy=has_copy)


def _judge(metadata: str, operator: StatefulOperator, path: str, place: str | None, *, has_copy: bool) -> Finding:
    copied = f"; this checkpoint has a copy of the file, so it was copied or moved from {_root_of(path)}" if has_copy else ""
    if place == ELSEWHERE:
        return remark(metadata, f"names {path}, a file of another checkpoint, which Spark reads{copied}")
    if place != MISSING:
        return doubt(metadata, f"names {path}, and it cannot be seen from here whether this file exists{copied}")
    problem = f"names {path}, which does not exist{copied}"
    if operator.name.startswith(TRANSFORM):
        return damage(STATE_SCHEMA_MISSING, metadata, problem)
    if operator.name == JOIN:
        return remark(metadata, f"{problem}. A join continues if Spark can create the folder of the file")
    return doubt(metadata, f"{problem}, and it is not known whether the operator needs it")


def _has_copy(tree: FileTree, metadata: str, path: str) -> bool:
    """Return True if the folder of the operator's schema files has a valid file with the name of a named one."""
    folder = f"{metadata.partition('/_metadata/')[0]}/_stateSchema/"
    before, _, name = path.rpartition(f"/{folder}")
    try:
        read_key_columns(tree.contents.get(f"{folder}{name}", b""))
    except (TornFile, UnknownFormat):
        return False
    return bool(before)


def _root_of(path: str) -> str:
    return path.rpartition("/state/")[0]
