"""Claims of checkpoint locations that a script names: requests of the driver and answers of the runner.

Before a query starts at such a location, the driver writes a request (`control_files.CLAIM_REQUESTS_FILE`) and waits for the
answer with the same number (`control_files.CLAIM_ANSWERS_FILE`). Both files contain a list, because several threads of a script
can start queries at the same time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.driver_protocol.untrusted_text import is_printable_text, single_line

LOCATION_MAX = 2000
REFUSAL_MAX = 1000
REQUESTS_MAX = 50
"""Requests that wait for an answer at the same time."""
ANSWERS_MAX = 100
"""Answers that the runner keeps; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    number: int
    """Number of the request within the attempt, from 1."""
    location: str


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    number: int
    refusal: str = ""
    """Reason why the query must not start; empty if it may start."""


def claim_requests_to_json(requests: Iterable[ClaimRequest]) -> dict[str, Any]:
    return {"requests": [asdict(request) for request in requests]}


def parse_claim_requests(fields: Mapping[str, Any]) -> list[ClaimRequest]:
    """Return the valid requests. Never raise."""
    entries = [entry for entry in _entries(fields, "requests") if is_printable_text(entry.get("location"), LOCATION_MAX)]
    return [ClaimRequest(number, str(entry["location"])) for entry in entries if (number := _number(entry)) is not None]


def claim_answers_to_json(answers: Iterable[ClaimAnswer]) -> dict[str, Any]:
    return {"answers": [asdict(answer) for answer in answers]}


def parse_claim_answers(fields: Mapping[str, Any]) -> dict[int, ClaimAnswer]:
    """Return the valid answers by their number. Never raise."""
    answers = [
        ClaimAnswer(number, single_line(entry.get("refusal"), REFUSAL_MAX))
        for entry in _entries(fields, "answers")
        if (number := _number(entry)) is not None
    ]
    return {answer.number: answer for answer in answers}


def _number(entry: Mapping[str, Any]) -> int | None:
    number = entry.get("number")
    return number if type(number) is int and number > 0 else None


def _entries(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    entries = fields.get(name)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
