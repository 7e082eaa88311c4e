"""Counts with their nouns."""

import pytest

from holdfast.model.plural import format_count


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 attempts"), (1, "1 attempt"), (2, "2 attempts"), (12_345, "12,345 attempts")]
)
def test_noun_agrees_with_its_count(count: int, text: str) -> None:
    assert format_count(count, "attempt") == text


def test_irregular_plural_can_be_given() -> None:
    assert format_count(2, "query", "queries") == "2 queries"
