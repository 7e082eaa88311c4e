"""What a job may say to Holdfast by `--conf holdfast.…=…`. Checked when it is submitted, and again where it is run."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.errors import Refused
from holdfast.model.duration import parse_duration
from holdfast.model.size import MEMORY_CONF, parse_size

PREFIX = "holdfast."
CONNECTOR = "holdfast.kafka.connector"
"""`on`, `off` or a version, where what the job's Python says is not enough to know."""
GRACE, AWAY, CHECK = "holdfast.kafka.grace", "holdfast.kafka.away", "holdfast.kafka.check"
"""How patient the offset guard is, and how often it looks."""
GUARDS_OFF = "holdfast.guards.off"
"""Which guards the job does without, by their names."""
GUARDS = ("kafka-offsets",)
_VERSION = re.compile(r"[A-Za-z0-9][\w.-]{0,50}")


def check(name: str, value: str) -> None:
    """Raises Refused, in a sentence that names the setting."""
    if name not in _CHECKS:
        raise Refused(f"--conf '{name}' is no setting of Holdfast: there are {', '.join(sorted(_CHECKS))}")
    try:
        _CHECKS[name](value)
    except Refused as error:
        raise Refused(f"--conf {name}: {error}") from error


def _memory(value: str) -> None:
    parse_size(value, what=MEMORY_CONF)


def _duration(value: str) -> None:
    if parse_duration(value) <= 0:
        raise Refused(f"'{value}' is not longer than nothing")


def _connector(value: str) -> None:
    if _VERSION.fullmatch(value) is None:
        raise Refused(f"'{value}' is neither on nor off nor a version")


def _guards(value: str) -> None:
    if unknown := [name for name in value.replace(",", " ").split() if name not in GUARDS]:
        raise Refused(f"there is no guard '{unknown[0]}'; there is {', '.join(GUARDS)}")


_CHECKS: Mapping[str, Callable[[str], None]] = MappingProxyType(
    {MEMORY_CONF: _memory, CONNECTOR: _connector, GRACE: _duration, AWAY: _duration, CHECK: _duration, GUARDS_OFF: _guards}
)
