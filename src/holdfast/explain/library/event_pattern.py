"""What lines mean: an event, if one of its literals stands there and its expression fits. Declared in `library/*.toml`."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused
from holdfast.explain.scan import literal_automaton
from holdfast.explain.scan.literal_automaton import Literals


@dataclass(frozen=True, slots=True)
class Pattern:
    kind: str
    system: str
    literals: tuple[str, ...]
    match: re.Pattern[str]
    says: str
    examples: tuple[str, ...]
    each: bool = False

    def fields(self, text: str) -> dict[str, str] | None:
        """What is known of the event in this text; None if it is none. `job2` is another place where a job may stand."""
        match = self.match.search(text)
        if match is None:
            return None
        return {_plain(name): value for name, value in match.groupdict().items() if value is not None}

    def sentence(self, fields: Mapping[str, str]) -> str:
        return self.says.format_map(_Known(fields))


@functools.cache
def _plain(name: str) -> str:
    return name.rstrip("0123456789")


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


class Patterns:
    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.all = tuple(patterns)
        self._known = sorted({literal for pattern in self.all for literal in pattern.literals})
        self.literals: Literals = literal_automaton.compiled([literal.encode() for literal in self._known])
        self._of_literal = tuple(
            tuple(pattern for pattern in self.all if literal in pattern.literals) for literal in self._known
        )

    def of(self, literal: int) -> tuple[Pattern, ...]:
        """The patterns that this literal may stand for."""
        return self._of_literal[literal]


def patterns_in(document: Mapping[str, Any], where: str) -> list[Pattern]:
    found = []
    for table in document.get("event", []):
        try:
            found.append(
                Pattern(
                    kind=table["kind"],
                    system=table["system"],
                    literals=tuple(table["literals"]),
                    match=re.compile(table["match"]),
                    says=table["says"],
                    examples=tuple(table.get("examples", ())),
                    each=bool(table.get("each", False)),
                )
            )
            if not found[-1].literals or any(not literal or "\n" in literal for literal in found[-1].literals):
                raise KeyError("literals")
        except (KeyError, TypeError, re.error) as error:
            raise Refused(f"{where}: an event that cannot be used ({table.get('kind', 'without a kind')}): {error}") from error
    return found
