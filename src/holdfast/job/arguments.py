"""Arguments of a script, without a parser: `--key value`, `--key=value`, `--flag` and positional arguments."""

from collections.abc import Iterator, Sequence

from holdfast.errors import Refused


class MissingArgument(Refused, AttributeError):
    """The script reads an argument that was not given. `getattr` with a default works as usual."""


class Arguments:
    """Named arguments as attributes (`--rows-per-second` is `args.rows_per_second`), positional arguments as items (`args[0]`).

    All values are strings; convert them yourself. A name without a value is True. A name takes the next word as its value
    unless that word starts with `--`; write `--key=value` for such a value. The last one of repeated names wins. Everything
    after a bare `--` is positional.

    `"name" in args` tests for a named argument, `len(args)` counts the positional ones, and iterating yields them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._named: dict[str, str | bool] = {}
        self._positional: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self._positional += rest
                break
            if not word.startswith("--"):
                self._positional.append(word)
                continue
            key, has_value, value = word[2:].partition("=")
            if has_value:
                self._named[_attribute(key)] = value
            else:
                self._named[_attribute(key)] = rest.pop(0) if rest and not rest[0].startswith("--") else True

    def __getattr__(self, name: str) -> str | bool:
        """Return the value of a named argument. Raises MissingArgument if it was not given."""
        if name.startswith("__") or name in ("_named", "_positional"):
            raise AttributeError(name)
        if name not in self._named:
            raise MissingArgument(f"the script needs the argument --{name.replace('_', '-')}, which was not given")
        return self._named[name]

    def __contains__(self, name: str) -> bool:
        """Return True if the named argument was given; `name` may contain hyphens or underscores."""
        return _attribute(name) in self._named

    def __getitem__(self, index: int) -> str:
        """Return a positional argument. Raises IndexError if there are fewer."""
        if not -len(self._positional) <= index < len(self._positional):
            raise IndexError(f"the script reads positional argument {index + 1}, but only {len(self._positional)} were given")
        return self._positional[index]

    def __len__(self) -> int:
        return len(self._positional)

    def __iter__(self) -> Iterator[str]:
        return iter(self._positional)

    def __repr__(self) -> str:
        return f"Arguments({self._named}, {self._positional})"


def _attribute(key: str) -> str:
    return key.replace("-", "_")
