"""Many strings looked for at once (Aho and Corasick): a table that is walked byte by byte, whatever their number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Literals:
    next: npt.NDArray[np.int16]
    """[state, byte] → state"""
    found: npt.NDArray[np.int16]
    """[state] → number of the longest literal that ends there, or -1."""
    shorter: npt.NDArray[np.int16]
    """[state] → another state whose literal ends there too, or 0."""


def compiled(literals: Sequence[bytes]) -> Literals:
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
    return Literals(next, ends, shorter)
