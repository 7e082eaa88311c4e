"""Memory sizes in Spark's text form: 512m, 2g."""

import re

from holdfast.errors import Refused

MEMORY_CONF = "holdfast.memory"
"""Memory limit of all processes of a job together."""

_SIZE = re.compile(r"(\d{1,12})([kmgt]?)b?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_size(text: str, *, what: str) -> int:
    """Return the size in bytes. Raise Refused, naming `what`, if the text is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise Refused(f"'{text}' is not a valid {what}: expected a number with k, m or g, such as 512m or 2g")
    return int(match[1]) * _FACTOR[match[2].lower()]
