"""Library of known formats, events, causal rules and signatures, declared in TOML files here and in the user's files."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from holdfast.errors import Refused
from holdfast.explain.library.causal_rule import CausalRule, parse_rules
from holdfast.explain.library.event_pattern import EventPatterns, parse_patterns
from holdfast.explain.library.log_format import LogFormats, parse_formats
from holdfast.explain.library.signature import Signature, parse_signatures

AddedText = tuple[tuple[str, str], ...]
"""(path, text) of the user's own files. Workers on other machines get the text, because they do not have the files."""


@dataclass(frozen=True, slots=True)
class Library:
    formats: LogFormats
    patterns: EventPatterns
    rules: tuple[CausalRule, ...]
    signatures: Mapping[str, Signature]
    added: AddedText = ()


def load_library(added: tuple[str, ...] = ()) -> Library:
    """Read the user's files and the built-in ones. The user's come first, and the first declaration that matches wins.

    Raise Refused if a file cannot be read or used."""
    return parse_library(tuple((path, _text(path)) for path in added))


@functools.lru_cache(maxsize=4)
def parse_library(added: AddedText) -> Library:
    built_in = sorted(
        (entry for entry in resources.files(__name__).iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name
    )
    documents = [(path, _document(path, text)) for path, text in added]
    documents += [(entry.name, _document(entry.name, entry.read_text("utf-8"))) for entry in built_in]
    return Library(
        LogFormats(format for where, document in documents for format in parse_formats(document, where)),
        EventPatterns(pattern for where, document in documents for pattern in parse_patterns(document, where)),
        tuple(rule for where, document in documents for rule in parse_rules(document, where)),
        {one.name: one for where, document in reversed(documents) for one in parse_signatures(document, where)},
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
