"""Many strings looked for at once (Aho and Corasick): a table that is walked byte by byte, whatever their number.

How fast that is depends on the table: it should fit into a cache of the processor, and a step should be one look. So bytes that
no literal tells apart share a column, a state is the place where its row begins, those in which a literal ends come last, and
no number has a sign that would have to be looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Literals:
    columns: npt.NDArray[np.uint8]
    """[byte] → column"""
    next: npt.NDArray[np.uint32]
    """[state + column] → state"""
    width: int
    """Of a row: the states are its multiples."""
    first_found: int
    """In this state, and in all after it, a literal ends."""
    found: npt.NDArray[np.int16]
    """[state // width] → number of the longest literal that ends there, or -1."""
    shorter: npt.NDArray[np.int16]
    """[state // width] → another row in which a literal ends that ends there too, or 0."""


def compiled(literals: Sequence[bytes]) -> Literals:
    next, found, shorter = _automaton(literals)
    order = np.argsort(found >= 0, kind="stable")  # the root stays the first
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    distinct, columns = np.unique(next, axis=1, return_inverse=True)
    width = distinct.shape[1]
    return Literals(
        columns=columns.reshape(-1).astype(np.uint8),
        next=(row[distinct[order]] * width).astype(np.uint32).reshape(-1),
        width=width,
        first_found=int(np.count_nonzero(found < 0)) * width,
        found=found[order],
        shorter=row[shorter[order]].astype(np.int16),
    )


def _automaton(
    literals: Sequence[bytes],
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """[state, byte] → state; and of each state the longest literal that ends there, and the state of the next shorter one."""
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
            raise ValueError("an empty literal is everywhere")
        if b"\n" in literal:
            raise ValueError("a literal that goes over the end of a line is nowhere")
        found[state] = number
    next = np.zeros((len(children), 256), np.int16)
    otherwise = [0] * len(children)
    shorter = np.zeros(len(children), np.int16)
    order = list(children[0].values())
    for byte, state in children[0].items():
        next[0, byte] = state
    for state in order:  # grows meanwhile: nearest to the root first
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
