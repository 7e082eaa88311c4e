"""Where literals stand in bytes.

A step of the search has to wait for the one before, which is most of what it takes. So a long piece is cut into four, between
lines, and they are searched side by side. No literal goes over the end of a line.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit
from holdfast.explain.scan.jit import UNSIGNED
from holdfast.explain.scan.literal_automaton import Literals

PARTS = 4
CUT_FROM_BYTES = 16 * 1024
"""To cut a piece pays from here."""
ROOM = 1 << 12


@dataclass(frozen=True, slots=True)
class Hits:
    """In the order in which they end; of those that end together, the longest first."""

    ends: npt.NDArray[np.int64]
    literals: npt.NDArray[np.int16]


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int16))


def search(
    data: bytes,
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    literals: Literals,
    *,
    compiled: bool,
    room: int = ROOM,
) -> Hits:
    """In the pieces of `data` from each of `begins` to each of `ends`, where lines begin."""
    cuts = _cuts(data, begins, ends)
    hit_ends, hit_states, count = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(1, np.int64)
    tables = cuts, literals.columns, literals.next, np.zeros(PARTS, np.uint32)
    filled = len(begins), literals.first_found, room, hit_ends, hit_states, count
    jit.run(_search, compiled, data, tables, *filled)
    found = int(count[0])
    if found > room:
        return search(data, begins, ends, literals, compiled=compiled, room=found)
    return _hits(hit_ends[:found], hit_states[:found] // literals.width, literals) if found else NO_HITS


def _cuts(data: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each piece where its parts begin, and its end. What is not cut is one part, and three empty ones after it."""
    cuts = np.empty((len(begins), PARTS + 1), np.int64)
    cuts[:, 0] = begins
    cuts[:, 1:] = ends[:, None]
    for row in np.flatnonzero(ends - begins >= CUT_FROM_BYTES):
        begin, end = int(begins[row]), int(ends[row])
        for part in range(1, PARTS):
            newline = data.find(b"\n", begin + part * (end - begin) // PARTS, end)
            cuts[row, part] = newline + 1 or end
    return cuts.reshape(-1)


def _hits(ends: npt.NDArray[np.int64], rows: npt.NDArray[np.integer[Any]], literals: Literals) -> Hits:
    """Where one literal ends, shorter ones may end as well."""
    order = np.argsort(ends)
    ends, rows = ends[order], rows[order]
    found, shorter = literals.found[rows], literals.shorter[rows]
    if shorter.any():
        more = _hits(ends[shorter > 0], shorter[shorter > 0], literals)
        ends, found = np.concatenate([ends, more.ends]), np.concatenate([found, more.literals])
        order = np.argsort(ends, kind="stable")
        ends, found = ends[order], found[order]
    return Hits(ends, found)


def _search(
    data: Any, cuts: Any, columns: Any, next: Any, states: Any, pieces: int, first_found: int, room: int, hit_ends: Any,
    hit_states: Any, count: Any,
) -> None:  # fmt: skip
    root = next[columns[10]]  # 0, without a sign, as all states are
    hits = 0
    for piece in range(pieces):
        cut = 5 * piece
        first, second, third, fourth, end = cuts[cut], cuts[cut + 1], cuts[cut + 2], cuts[cut + 3], cuts[cut + 4]
        state_1 = state_2 = state_3 = state_4 = root
        states[0], states[1], states[2], states[3] = state_1, state_2, state_3, state_4
        steps = min(second - first, third - second, fourth - third, end - fourth)
        step = 0
        while step < steps:
            found = False
            while step < steps and not found:  # nothing else in here: what it is compiled to is twice as fast so
                state_1 = next[state_1 + columns[data[(first + step) & UNSIGNED]]]
                state_2 = next[state_2 + columns[data[(second + step) & UNSIGNED]]]
                state_3 = next[state_3 + columns[data[(third + step) & UNSIGNED]]]
                state_4 = next[state_4 + columns[data[(fourth + step) & UNSIGNED]]]
                found = max(state_1, state_2, state_3, state_4) >= first_found
                step += 1
            states[0], states[1], states[2], states[3] = state_1, state_2, state_3, state_4
            for part in range(4):
                if states[part] >= first_found:
                    if hits < room:
                        hit_ends[hits] = cuts[cut + part] + step
                        hit_states[hits] = states[part]
                    hits += 1
        for part in range(4):  # what is left of each
            state = states[part]
            for at in range(cuts[cut + part] + steps, cuts[cut + part + 1]):
                state = next[state + columns[data[at & UNSIGNED]]]
                if state >= first_found:
                    if hits < room:
                        hit_ends[hits] = at + 1
                        hit_states[hits] = state
                    hits += 1
    count[0] = hits
