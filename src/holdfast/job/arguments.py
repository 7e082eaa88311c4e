"""A script's arguments, without a parser: `--key value`, `--key=value`, `--flag`, and what stands alone."""

from collections.abc import Iterator, Sequence

from holdfast.errors import Refused


class MissingArgument(Refused, AttributeError):
    """The script asked for an argument that it was not given. `getattr` with a default works as usual."""


class Arguments:
    """Named arguments are attributes (`--rows-per-second` is `rows_per_second`), the others are items.

    A name takes the next word as its value unless that begins with `--`; a value that does needs `--key=value`. A name without
    a value is True, of a repeated one the last counts, and after a bare `--` everything stands alone. Values are text.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._named: dict[str, str | bool] = {}
        self._alone: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self._alone += rest
                break
            if not word.startswith("--"):
                self._alone.append(word)
                continue
            key, given, value = word[2:].partition("=")
            if given:
                self._named[_attribute(key)] = value
            else:
                self._named[_attribute(key)] = rest.pop(0) if rest and not rest[0].startswith("--") else True

    def __getattr__(self, name: str) -> str | bool:
        if name.startswith("__") or name in ("_named", "_alone"):
            raise AttributeError(name)
        if name not in self._named:
            raise MissingArgument(f"the argument --{name.replace('_', '-')} is missing: this script needs it")
        return self._named[name]

    def __contains__(self, name: str) -> bool:
        return _attribute(name) in self._named

    def __getitem__(self, index: int) -> str:
        if not -len(self._alone) <= index < len(self._alone):
            raise IndexError(f"argument {index + 1} is missing: this script was given {len(self._alone)}")
        return self._alone[index]

    def __len__(self) -> int:
        return len(self._alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self._alone)

    def __repr__(self) -> str:
        return f"Arguments({self._named}, {self._alone})"


def _attribute(key: str) -> str:
    return key.replace("-", "_")
