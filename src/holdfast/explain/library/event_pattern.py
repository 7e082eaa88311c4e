"""Event pattern: a record is an event if it contains one of the literals and matches the expression.

Declared in `library/*.toml` and in the user's files.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused
from holdfast.explain.scan import literal_automaton
from holdfast.explain.scan.literal_automaton import LiteralTable


@dataclass(frozen=True, slots=True)
class EventPattern:
    kind: str
    system: str
    literals: tuple[str, ...]
    match: re.Pattern[str]
    description: str
    examples: tuple[str, ...]
    never_merged: bool = False
    notable: bool = False
    """True if the event may be part of a problem even if no signature fits."""

    def match_fields(self, text: str) -> dict[str, str] | None:
        """Return the fields captured from this text, or None if it does not match.

        A digit after a group's name allows a second place for the same field: `job2` captures `job`."""
        match = self.match.search(text)
        if match is None:
            return None
        return {_field_name(name): value for name, value in match.groupdict().items() if value is not None}

    def describe(self, fields: Mapping[str, str]) -> str:
        return self.description.format_map(_WithPlaceholder(fields))


@functools.cache
def _field_name(name: str) -> str:
    return name.rstrip("0123456789")


class _WithPlaceholder(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


class EventPatterns:
    def __init__(self, patterns: Iterable[EventPattern]) -> None:
        self.all = tuple(patterns)
        self._literals = sorted({literal for pattern in self.all for literal in pattern.literals})
        self.notable = frozenset((pattern.kind, pattern.system) for pattern in self.all if pattern.notable)
        """(kind, system) of the events that may be part of a problem even if no signature fits."""
        self.literals: LiteralTable = literal_automaton.compile_literals([literal.encode() for literal in self._literals])
        self._of_literal = tuple(
            tuple(pattern for pattern in self.all if literal in pattern.literals) for literal in self._literals
        )

    def patterns_of_literal(self, literal: int) -> tuple[EventPattern, ...]:
        """Return the patterns that have this literal."""
        return self._of_literal[literal]


def parse_patterns(document: Mapping[str, Any], where: str) -> list[EventPattern]:
    patterns = []
    for table in document.get("event", []):
        try:
            patterns.append(
                EventPattern(
                    kind=table["kind"],
                    system=table["system"],
                    literals=tuple(table["literals"]),
                    match=re.compile(table["match"]),
                    description=table["says"],
                    examples=tuple(table.get("examples", ())),
                    never_merged=bool(table.get("each", False)),
                    notable=bool(table.get("notable", False)),
                )
            )
            if not patterns[-1].literals or any(not literal or "\n" in literal for literal in patterns[-1].literals):
                raise KeyError("literals")
        except (KeyError, TypeError, re.error) as error:
            raise Refused(f"{where}: invalid event ({table.get('kind', 'without a kind')}): {error}") from error
    return patterns
