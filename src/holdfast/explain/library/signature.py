"""What is known to go wrong, in words. Declared in `library/signatures.toml`; how it is found is in `diagnose`."""

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


def signatures_in(document: Mapping[str, Any], where: str) -> list[Signature]:
    found = []
    for table in document.get("signature", []):
        try:
            found.append(
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
            raise Refused(f"{where}: a signature that cannot be used ({name}): {error}") from error
    return found
