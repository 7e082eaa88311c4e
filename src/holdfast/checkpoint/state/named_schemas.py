"""Schema files that the metadata of an operator names by absolute paths. Spark reads them there when the query starts.

A checkpoint that was copied by hand names the files of the original. transformWithState fails if one of them is missing. A join
takes a missing one for an empty one, writes a new one, and creates the folder of the missing one.
"""

from collections.abc import Iterator

from holdfast.checkpoint.damage_rules import STATE_SCHEMA_MISSING
from holdfast.checkpoint.file_tree import ELSEWHERE, HERE, MISSING, FileTree
from holdfast.checkpoint.finding import Finding, damage, doubt, remark
from holdfast.checkpoint.log_files import StatefulOperator

TRANSFORM = "transformWithState"
"""Start of the names of the operators of transformWithState. They differ by language and version."""
JOIN = "symmetricHashJoin"


def check_named_schemas(tree: FileTree, metadata: str, operator: StatefulOperator) -> Iterator[Finding]:
    """Yield findings about the schema files that the metadata of an operator names. `metadata` is the path of its file."""
    for path in dict.fromkeys(operator.schema_files):
        place = tree.named_files.get(path)
        if place == MISSING:
            yield _judge_missing(tree, metadata, operator, path)
        elif place == ELSEWHERE:
            yield remark(metadata, f"names {path}, a file of another checkpoint, which Spark reads: {_advice(path)}")
        elif place != HERE:
            yield doubt(metadata, f"names {path}, and it cannot be seen from here whether this file exists")


def _judge_missing(tree: FileTree, metadata: str, operator: StatefulOperator, path: str) -> Finding:
    problem = f"names {path}, which does not exist"
    if path.rpartition("/")[2] in {each.rpartition("/")[2] for each in tree.files}:
        problem += f"; this checkpoint has a copy of the file, so it was copied or moved: {_advice(path)}"
    if operator.name.startswith(TRANSFORM):
        return damage(STATE_SCHEMA_MISSING, metadata, problem)
    if operator.name == JOIN:
        return remark(metadata, f"{problem}. A join continues if Spark can create the folder of the file")
    return doubt(metadata, f"{problem}, and it is not known whether the operator needs it")


def _advice(path: str) -> str:
    root = path.partition("/state/")[0]
    return f"move the checkpoint back to {root}, or copy it with 'holdfast submit --restore'"
