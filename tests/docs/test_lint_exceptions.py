"""Exceptions from lint, type and format rules: each has its reason, in the code and in pyproject.toml."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "examples")

_EXCEPTION = re.compile(r"#\s*(?:noqa|type:\s*ignore|fmt:\s*(?:skip|off))\b")
_WITH_REASON = re.compile(
    r"# noqa: [A-Z]+\d+(?:, [A-Z]+\d+)* -- \w"
    r"|# type: ignore\[[\w, -]+\]  # \w"
    r"|# fmt: skip  # \w"
)
_IGNORED_RULE = re.compile(r' +"[A-Z]+\d+",')


def comments(source: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_exception_in_the_code_has_a_reason(folder: str) -> None:
    without_reason = [
        f"{file.relative_to(ROOT)}:{line}: {comment}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, comment in comments(file.read_text(encoding="utf-8"))
        if _EXCEPTION.search(comment) and not _WITH_REASON.match(comment)
    ]
    assert without_reason == []


def test_each_exception_in_pyproject_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (lint,) = re.findall(r"^\[tool\.ruff\.lint\]\n.*?^(?=\[tool\.mypy\])", text, re.MULTILINE | re.DOTALL)
    exceptions = [line for line in lint.splitlines() if _IGNORED_RULE.match(line) or '" = ["' in line]
    assert exceptions
    assert [line for line in exceptions if "  # " not in line] == []
