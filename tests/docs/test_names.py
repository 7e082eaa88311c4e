"""Names in the code: a public class has one definition, and no docstring hides its subject."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
HIDDEN_SUBJECTS = {
    *("what", "whether", "how", "of", "that", "who", "whom", "where", "which", "why", "when", "from", "to", "as", "so"),
    *("whoever", "whatever"),
}


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE), ast.parse(file.read_text(encoding="utf-8"))


def test_each_public_class_name_is_defined_once() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file))
    assert {name: files for name, files in places.items() if len(set(files)) > 1} == {}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    wrong = [
        f"{file}: {text}"
        for file, module in modules()
        for node in ast.walk(module)
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and text.split()[0].lower() in HIDDEN_SUBJECTS
    ]
    assert wrong == []
