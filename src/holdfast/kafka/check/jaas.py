"""Reading one entry of Java's login configuration, as Kafka's clients take it: `module required key="value" …;`. Pure."""

import re
from dataclasses import dataclass, field

_ENTRY = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S | re.I)
_OPTION = re.compile(
    r"""\s*(?P<key>[\w.\-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;"']+))""", re.S
)


class Unreadable(ValueError):
    """Says nothing of what it holds: that may be a password."""


@dataclass(frozen=True, slots=True)
class Login:
    module: str
    """The last part of the class's name."""
    options: dict[str, str] = field(repr=False)


def login(text: str) -> Login:
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise Unreadable("it is not one entry of the form 'module required key=\"value\";'")
    options, at = {}, 0
    rest = entry["options"]
    while rest[at:].strip():
        option = _OPTION.match(rest, at)
        if option is None:
            raise Unreadable('its options are not of the form key="value"')
        options[option["key"]] = _value(option)
        at = option.end()
    return Login(entry["module"].rpartition(".")[2], options)


def _value(option: re.Match[str]) -> str:
    if option["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", option["quoted"])
    return option["single"] if option["single"] is not None else option["bare"]
