"""What is known of other systems: declarations, read from this directory and from files that a user adds."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from holdfast.errors import Refused
from holdfast.explain.library.causal_rule import Rule, rules_in
from holdfast.explain.library.event_pattern import Patterns, patterns_in
from holdfast.explain.library.log_format import Formats, formats_in
from holdfast.explain.library.signature import Signature, signatures_in

Added = tuple[tuple[str, str], ...]
"""What a user adds: where it is from, and its text. Workers on other machines have the text, and not the file."""


@dataclass(frozen=True, slots=True)
class Library:
    formats: Formats
    patterns: Patterns
    rules: tuple[Rule, ...]
    signatures: Mapping[str, Signature]
    added: Added = ()


def library(added: tuple[str, ...] = ()) -> Library:
    """Ours, after those that are in the files `added`: the first that fits counts."""
    return library_of(tuple((path, _text(path)) for path in added))


@functools.lru_cache(maxsize=4)
def library_of(added: Added) -> Library:
    ours = sorted(
        (entry for entry in resources.files(__name__).iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name
    )
    documents = [(path, _document(path, text)) for path, text in added]
    documents += [(entry.name, _document(entry.name, entry.read_text("utf-8"))) for entry in ours]
    return Library(
        Formats(format for where, document in documents for format in formats_in(document, where)),
        Patterns(pattern for where, document in documents for pattern in patterns_in(document, where)),
        tuple(rule for where, document in documents for rule in rules_in(document, where)),
        {one.name: one for where, document in reversed(documents) for one in signatures_in(document, where)},
        added,
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error


def _document(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{path} is not TOML: {error}") from error
