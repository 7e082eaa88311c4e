"""Parser for one JAAS entry in the form that Kafka clients accept: `module required key="value" …;`. Pure."""

import re
from dataclasses import dataclass, field

_ENTRY = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S | re.I)
_OPTION = re.compile(
    r"""\s*(?P<key>[\w.\-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;"']+))""", re.S
)


class MalformedJaas(ValueError):
    """Invalid JAAS entry. The message never repeats its content, which may include a password."""


@dataclass(frozen=True, slots=True)
class JaasLogin:
    module: str
    """Class name of the login module, without its package."""
    options: dict[str, str] = field(repr=False)


def parse_login(text: str) -> JaasLogin:
    """Parse one entry. Raise MalformedJaas."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise MalformedJaas("it is not one entry of the form 'module required key=\"value\";'")
    options, position = {}, 0
    rest = entry["options"]
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            raise MalformedJaas('its options are not of the form key="value"')
        options[option["key"]] = _option_value(option)
        position = option.end()
    return JaasLogin(entry["module"].rpartition(".")[2], options)


def _option_value(option: re.Match[str]) -> str:
    if option["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", option["quoted"])
    return option["single"] if option["single"] is not None else option["bare"]
