"""What follows from what. Declared in `library/rules.toml`, and in users' files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class Rule:
    cause: frozenset[str]
    effect: frozenset[str]
    within_ms: int
    same: tuple[str, ...]
    differ: tuple[str, ...]
    """What cause and effect must not have in common."""
    since: frozenset[str]
    """What was before the last of these, where the effect is, is no cause."""
    unless: frozenset[str]
    """What one of these was just before, where the cause is, is no cause."""
    says: str


def rules_in(document: Mapping[str, Any], where: str) -> list[Rule]:
    found = []
    for table in document.get("rule", []):
        try:
            within = str(table["within"])
            found.append(
                Rule(
                    cause=frozenset(table["cause"]),
                    effect=frozenset(table["effect"]),
                    within_ms=int(within.removesuffix("s")) * 1000,
                    same=tuple(table.get("same", ())),
                    differ=tuple(table.get("differ", ())),
                    since=frozenset(table.get("since", ())),
                    unless=frozenset(table.get("unless", ())),
                    says=table["says"],
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(
                f"{where}: a rule that cannot be used ({table.get('says', 'without a sentence')}): {error}"
            ) from error
    return found
