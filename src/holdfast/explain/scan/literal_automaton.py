"""Aho-Corasick automaton: find many literals in one pass, with one table lookup per byte.

Its speed depends on the table, which should fit into the processor's cache. So bytes that no literal distinguishes share a
column, a state is the index at which its row starts, accepting states come last, and all numbers are unsigned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class LiteralTable:
    columns: npt.NDArray[np.uint8]
    """[byte] → column"""
    next: npt.NDArray[np.uint32]
    """[state + column] → state"""
    width: int
    """Length of a row; states are multiples of it."""
    first_accepting: int
    """A literal ends in this state and in all higher ones."""
    longest: npt.NDArray[np.int16]
    """[state // width] → index of the longest literal that ends in the state, or -1."""
    next_shorter: npt.NDArray[np.int16]
    """[state // width] → row of the next shorter literal that ends in the state, or 0."""


def compile_literals(literals: Sequence[bytes]) -> LiteralTable:
    next, found, shorter = _automaton(literals)
    order = np.argsort(found >= 0, kind="stable")  # the root remains first
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    distinct, columns = np.unique(next, axis=1, return_inverse=True)
    width = distinct.shape[1]
    return LiteralTable(
        columns=columns.reshape(-1).astype(np.uint8),
        next=(row[distinct[order]] * width).astype(np.uint32).reshape(-1),
        width=width,
        first_accepting=int(np.count_nonzero(found < 0)) * width,
        longest=found[order],
        next_shorter=row[shorter[order]].astype(np.int16),
    )


def _automaton(
    literals: Sequence[bytes],
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """Return [state, byte] → state, and for each state its longest literal and the state of the next shorter one."""
    children: list[dict[int, int]] = [{}]
    found = [-1]
    for number, literal in enumerate(literals):
        state = 0
        for byte in literal:
            if byte not in children[state]:
                children[state][byte] = len(children)
                children.append({})
                found.append(-1)
            state = children[state][byte]
        if state == 0:
            raise ValueError("a literal must not be empty")
        if b"\n" in literal:
            raise ValueError("a literal must not contain a line end")
        found[state] = number
    next = np.zeros((len(children), 256), np.int16)
    otherwise = [0] * len(children)
    shorter = np.zeros(len(children), np.int16)
    order = list(children[0].values())
    for byte, state in children[0].items():
        next[0, byte] = state
    for state in order:  # grows while it is read: breadth first
        fallback = otherwise[state]
        shorter[state] = fallback if found[fallback] >= 0 else shorter[fallback]
        next[state] = next[fallback]
        for byte, child in children[state].items():
            otherwise[child] = int(next[fallback, byte])
            next[state, byte] = child
            order.append(child)
    ends = np.array(found, np.int16)
    for state in order:
        if ends[state] < 0 and shorter[state]:
            ends[state], shorter[state] = ends[shorter[state]], shorter[shorter[state]]
    return next, ends, shorter
