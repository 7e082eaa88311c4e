"""Shapes: what a line begins with, compiled into one table that is walked byte by byte.

    9   a digit         a   a letter         _   blanks, or none         ~   anything, or nothing         x+   one or more of x

Everything else stands for itself. Of several shapes that fit, the first one counts. Before all of them there may be what a
terminal takes for a colour, and a byte order mark: neither is part of what was said.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DEAD = 0
"""The state that nothing leads out of."""
FIRST = 1

_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(range(ord("a"), ord("z") + 1)) | frozenset(range(ord("A"), ord("Z") + 1))
_BLANKS = frozenset(b" \t")
_NEWLINE = 10
_ANYTHING = frozenset(range(256)) - {_NEWLINE}
_IGNORED = ((b"\x1b[", b"0123456789;", b"m"), (b"\xef\xbb", b"", b"\xbf"))
"""How each begins, what may follow, how it ends."""
_CLASSES = {"9": _DIGITS, "a": _LETTERS, "_": _BLANKS, "~": _ANYTHING}


@dataclass(frozen=True, slots=True)
class Step:
    bytes: frozenset[int]
    repeats: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Shapes:
    next: npt.NDArray[np.uint16]
    """[state, byte] → state"""
    fits: npt.NDArray[np.int16]
    """[state] → number of the shape that is complete there, or -1."""
    alike: npt.NDArray[np.uint8]
    """[byte] → a number that bytes share which lead everywhere to the same. The end of a line is like nothing else."""


def steps_of(shape: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    for character in shape:
        if character == "+" and steps:
            steps[-1] = Step(steps[-1].bytes, repeats=True)
        elif character in "_~":
            steps.append(Step(_CLASSES[character], repeats=True, optional=True))
        else:
            steps.append(Step(_CLASSES.get(character) or frozenset(character.encode())))
    return tuple(steps)


def compiled(shapes: Sequence[str]) -> Shapes:
    """Sets of (shape, step) become states. Once a shape is complete, only those before it are of interest."""
    ladders = [steps_of(shape) for shape in shapes]
    Place = tuple[int, int]

    def with_what_may_be_left_out(places: set[Place]) -> frozenset[Place]:
        reached = set(places)
        waiting = list(places)
        while waiting:
            number, at = waiting.pop()
            if at < len(ladders[number]) and ladders[number][at].optional and (number, at + 1) not in reached:
                reached.add((number, at + 1))
                waiting.append((number, at + 1))
        return frozenset(reached)

    def after(places: frozenset[Place], byte: int) -> frozenset[Place]:
        moved: set[Place] = set()
        for number, at in places:
            if at < len(ladders[number]) and byte in ladders[number][at].bytes:
                moved.add((number, at + 1))
                if ladders[number][at].repeats:
                    moved.add((number, at))
        reached = with_what_may_be_left_out(moved)
        complete = _complete(reached, ladders)
        return reached if complete < 0 else frozenset(place for place in reached if place[0] <= complete)

    begin = with_what_may_be_left_out({(number, 0) for number in range(len(ladders))})
    numbers: dict[frozenset[Place], int] = {frozenset(): DEAD, begin: FIRST}
    rows: list[npt.NDArray[np.uint16]] = [np.zeros(256, np.uint16)]
    waiting = [begin]
    while waiting:
        places = waiting.pop(0)
        row = np.zeros(256, np.uint16)
        for byte in range(256):
            reached = after(places, byte)
            if reached not in numbers:
                numbers[reached] = len(numbers)
                waiting.append(reached)
            row[byte] = numbers[reached]
        rows.append(row)
    fits = [_complete(places, ladders) for places in numbers]
    for ignored in _IGNORED:
        _lead_back(rows, *ignored)
    fits += [-1] * (len(rows) - len(fits))
    table = np.stack(rows)
    return Shapes(table, np.array(fits, np.int16), _alike(table))


def _alike(table: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint8]:
    numbers: dict[bytes, int] = {}
    columns = [b"the end of a line" if byte == _NEWLINE else table[:, byte].tobytes() for byte in range(256)]
    return np.array([numbers.setdefault(column, len(numbers)) for column in columns], np.uint8)


def _lead_back(rows: list[npt.NDArray[np.uint16]], first: bytes, repeated: bytes, last: bytes) -> None:
    """From the beginning by these bytes to the beginning, unless they mean something."""
    state = FIRST
    for byte in first:
        if rows[state][byte] != DEAD:
            return
        rows[state][byte] = len(rows)
        state = len(rows)
        rows.append(np.zeros(256, np.uint16))
    for byte in repeated:
        rows[state][byte] = state
    for byte in last:
        rows[state][byte] = FIRST


def _complete(places: frozenset[tuple[int, int]], ladders: list[tuple[Step, ...]]) -> int:
    return min((number for number, at in places if at == len(ladders[number])), default=-1)
