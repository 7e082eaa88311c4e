"""Signature: the texts of a known problem. Declared in `library/signatures.toml`; `diagnose` has the detectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    title: str
    explanation: str
    advice: str
    needs: str
    rules_out: str
    issues: tuple[str, ...]


def parse_signatures(document: Mapping[str, Any], where: str) -> list[Signature]:
    signatures = []
    for table in document.get("signature", []):
        try:
            signatures.append(
                Signature(
                    name=table["name"],
                    title=table["title"],
                    explanation=table["explanation"],
                    advice=table["advice"],
                    needs=table["needs"],
                    rules_out=table.get("rules_out", ""),
                    issues=tuple(table.get("issues", ())),
                )
            )
        except (KeyError, TypeError) as error:
            name = table.get("name", "without a name")
            raise Refused(f"{where}: invalid signature ({name}): {error}") from error
    return signatures
