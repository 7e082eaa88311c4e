"""Causal rule: events that can cause other events. Declared in `library/rules.toml` and in the user's files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class CausalRule:
    cause: frozenset[str]
    effect: frozenset[str]
    within_ms: int
    same: tuple[str, ...]
    differ: tuple[str, ...]
    """Fields in which cause and effect must not agree."""
    since: frozenset[str]
    """Event kinds: an event before the last of these at the effect's component is not a cause."""
    unless: frozenset[str]
    """Event kinds: an event that one of these precedes at the same component is not a cause."""
    description: str


def parse_rules(document: Mapping[str, Any], where: str) -> list[CausalRule]:
    rules = []
    for table in document.get("rule", []):
        try:
            within = str(table["within"])
            rules.append(
                CausalRule(
                    cause=frozenset(table["cause"]),
                    effect=frozenset(table["effect"]),
                    within_ms=int(within.removesuffix("s")) * 1000,
                    same=tuple(table.get("same", ())),
                    differ=tuple(table.get("differ", ())),
                    since=frozenset(table.get("since", ())),
                    unless=frozenset(table.get("unless", ())),
                    description=table["says"],
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"{where}: invalid rule ({table.get('says', 'without a sentence')}): {error}") from error
    return rules
