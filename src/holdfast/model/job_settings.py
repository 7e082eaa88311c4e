"""Holdfast settings that a job passes as `--conf holdfast.…=…`. Checked at submission and again on the node that runs it."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.errors import Refused
from holdfast.model.duration import parse_duration
from holdfast.model.size import MEMORY_CONF, parse_size

PREFIX = "holdfast."
KAFKA_CONNECTOR = "holdfast.kafka.connector"
"""`on`, `off` or a version of the Kafka connector. Needed if the script does not show which connector it uses."""
KAFKA_GRACE, KAFKA_AWAY, KAFKA_CHECK_INTERVAL = "holdfast.kafka.grace", "holdfast.kafka.away", "holdfast.kafka.check"
"""Offset check: durations it tolerates missing offsets and unreachable brokers, and the interval between two checks."""
GUARDS_OFF = "holdfast.guards.off"
"""Names of the guards that are switched off for the job."""
GUARDS = ("kafka-offsets",)
_VERSION = re.compile(r"[A-Za-z0-9][\w.-]{0,50}")


def check_setting(name: str, value: str) -> None:
    """Check the value of a setting. Raise Refused, naming the setting, if it is unknown or invalid."""
    if name not in _CHECKS:
        raise Refused(f"--conf '{name}' is not a setting of Holdfast; the settings are {', '.join(sorted(_CHECKS))}")
    try:
        _CHECKS[name](value)
    except Refused as error:
        raise Refused(f"--conf {name}: {error}") from error


def _check_memory(value: str) -> None:
    parse_size(value, what=MEMORY_CONF)


def _check_duration(value: str) -> None:
    if parse_duration(value) <= 0:
        raise Refused(f"'{value}' is not more than zero")


def _check_connector(value: str) -> None:
    if _VERSION.fullmatch(value) is None:
        raise Refused(f"'{value}' is not 'on', 'off' or a version")


def _check_guards(value: str) -> None:
    if unknown := [name for name in value.replace(",", " ").split() if name not in GUARDS]:
        raise Refused(f"unknown guard '{unknown[0]}'; the guards are: {', '.join(GUARDS)}")


_CHECKS: Mapping[str, Callable[[str], None]] = MappingProxyType(
    {
        MEMORY_CONF: _check_memory,
        KAFKA_CONNECTOR: _check_connector,
        KAFKA_GRACE: _check_duration,
        KAFKA_AWAY: _check_duration,
        KAFKA_CHECK_INTERVAL: _check_duration,
        GUARDS_OFF: _check_guards,
    }
)
