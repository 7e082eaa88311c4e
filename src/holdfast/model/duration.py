"""Durations in text form: 500ms, 10s, 5m, 1h, 2d; a bare number means seconds."""

import re

from holdfast.errors import Refused

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_LENGTH_MAX = 12


def parse_duration(text: str) -> float:
    """Return the duration in seconds. Raise Refused if the text is not a duration."""
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > _LENGTH_MAX:
        raise Refused(f"'{text}' is not a duration such as 10s, 5m or 1h")
    return float(match[1]) * _UNIT_S[match[2]]
