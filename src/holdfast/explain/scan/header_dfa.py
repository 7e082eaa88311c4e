"""Compile the shapes of record headers into one table, a DFA that reads a line byte by byte.

    9   a digit      a   a letter      _   any number of blanks      ~   any number of any bytes      x+   one or more of x
    \\x  the character x itself

Every other character matches itself. If several shapes match, the first one wins. A terminal colour or a byte order mark
before the shape is skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DEAD_STATE = 0
"""State from which no shape can match."""
START_STATE = 1

_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(range(ord("a"), ord("z") + 1)) | frozenset(range(ord("A"), ord("Z") + 1))
_BLANKS = frozenset(b" \t")
_NEWLINE = 10
_ANYTHING = frozenset(range(256)) - {_NEWLINE}
_IGNORED = ((b"\x1b[", b"0123456789;", b"m"), (b"\xef\xbb", b"", b"\xbf"))
"""Sequences skipped at the start of a line: first bytes, repeated bytes, last byte."""
_CLASSES = {"9": _DIGITS, "a": _LETTERS, "_": _BLANKS, "~": _ANYTHING}


@dataclass(frozen=True, slots=True)
class ShapeStep:
    bytes: frozenset[int]
    repeats: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class HeaderTable:
    next: npt.NDArray[np.uint16]
    """[state, byte] → state"""
    accepts: npt.NDArray[np.int16]
    """[state] → index of the shape that is complete in this state, or -1."""
    byte_classes: npt.NDArray[np.uint8]
    """[byte] → class; bytes of one class lead from every state to the same state. A newline is its own class."""


def parse_shape(shape: str) -> tuple[ShapeStep, ...]:
    steps: list[ShapeStep] = []
    characters = iter(shape)
    for character in characters:
        if character == "\\":
            steps.append(ShapeStep(frozenset(next(characters, "\\").encode())))
        elif character == "+" and steps:
            steps[-1] = ShapeStep(steps[-1].bytes, repeats=True)
        elif character in "_~":
            steps.append(ShapeStep(_CLASSES[character], repeats=True, optional=True))
        else:
            steps.append(ShapeStep(_CLASSES.get(character) or frozenset(character.encode())))
    return tuple(steps)


def compile_shapes(shapes: Sequence[str], *, shortest: bool = False) -> HeaderTable:
    """Build the DFA by subset construction: a state is a set of (shape, step).

    Once a shape is complete, only shapes before it can still win. Without `shortest`, it is complete again at a later place
    that fits, too. With it, shapes that still skip any bytes cannot win any more either."""
    shape_steps = [parse_shape(shape) for shape in shapes]
    fixed_from = [max((at + 1 for at, step in enumerate(one) if step.bytes == _ANYTHING), default=-1) for one in shape_steps]
    Place = tuple[int, int]

    def with_optional_steps(places: set[Place]) -> frozenset[Place]:
        reached = set(places)
        waiting = list(places)
        while waiting:
            number, at = waiting.pop()
            if at < len(shape_steps[number]) and shape_steps[number][at].optional and (number, at + 1) not in reached:
                reached.add((number, at + 1))
                waiting.append((number, at + 1))
        return frozenset(reached)

    def after(places: frozenset[Place], byte: int) -> frozenset[Place]:
        moved: set[Place] = set()
        for number, at in places:
            if at < len(shape_steps[number]) and byte in shape_steps[number][at].bytes:
                moved.add((number, at + 1))
                if shape_steps[number][at].repeats:
                    moved.add((number, at))
        reached = with_optional_steps(moved)
        complete = _complete(reached, shape_steps)
        if complete < 0:
            return reached
        if shortest:
            end = complete, len(shape_steps[complete])
            return frozenset({end, *(place for place in reached if place[0] < complete and place[1] > fixed_from[place[0]])})
        return frozenset(place for place in reached if place[0] <= complete)

    begin = with_optional_steps({(number, 0) for number in range(len(shape_steps))})
    numbers: dict[frozenset[Place], int] = {frozenset(): DEAD_STATE, begin: START_STATE}
    rows: list[npt.NDArray[np.uint16]] = [np.zeros(256, np.uint16)]
    alike = _group_bytes(shape_steps)
    waiting = [begin]
    while waiting:
        places = waiting.pop(0)
        row = np.zeros(256, np.uint16)
        for group in alike:
            reached = after(places, group[0])
            if reached not in numbers:
                numbers[reached] = len(numbers)
                waiting.append(reached)
            row[group] = numbers[reached]
        rows.append(row)
    fits = [_complete(places, shape_steps) for places in numbers]
    for ignored in _IGNORED:
        _skip_sequence(rows, *ignored)
    fits += [-1] * (len(rows) - len(fits))
    table = np.stack(rows)
    return HeaderTable(table, np.array(fits, np.int16), _byte_classes(table))


def _group_bytes(shape_steps: list[tuple[ShapeStep, ...]]) -> list[list[int]]:
    """Return groups of bytes that no step distinguishes, in the order of the first byte of each group."""
    sets = {step.bytes for steps in shape_steps for step in steps}
    groups: dict[tuple[bool, ...], list[int]] = {}
    for byte in range(256):
        groups.setdefault(tuple(byte in bytes for bytes in sets), []).append(byte)
    return list(groups.values())


def _byte_classes(table: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint8]:
    numbers: dict[bytes, int] = {}
    columns = [b"newline" if byte == _NEWLINE else table[:, byte].tobytes() for byte in range(256)]
    return np.array([numbers.setdefault(column, len(numbers)) for column in columns], np.uint8)


def _skip_sequence(rows: list[npt.NDArray[np.uint16]], first: bytes, repeated: bytes, last: bytes) -> None:
    """Let these bytes lead from the start state back to it, unless a shape uses them."""
    state = START_STATE
    for byte in first:
        if rows[state][byte] != DEAD_STATE:
            return
        rows[state][byte] = len(rows)
        state = len(rows)
        rows.append(np.zeros(256, np.uint16))
    for byte in repeated:
        rows[state][byte] = state
    for byte in last:
        rows[state][byte] = START_STATE


def _complete(places: frozenset[tuple[int, int]], shape_steps: list[tuple[ShapeStep, ...]]) -> int:
    return min((number for number, at in places if at == len(shape_steps[number])), default=-1)
