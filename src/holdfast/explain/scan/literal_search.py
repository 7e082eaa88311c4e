"""Find literals in bytes with an automaton.

Each step depends on the one before, and this latency dominates. So a long piece is split into four at line ends, and the four
parts are searched side by side. No literal spans two lines.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit
from holdfast.explain.scan.jit import NON_NEGATIVE
from holdfast.explain.scan.literal_automaton import LiteralTable

PARTS = 4
SPLIT_MIN_BYTES = 16 * 1024
"""Length from which splitting a piece is faster."""
HITS_INITIAL = 1 << 12


@dataclass(frozen=True, slots=True)
class LiteralHits:
    """Hits in order of their ends; of hits with the same end, the longest literal first."""

    ends: npt.NDArray[np.int64]
    literals: npt.NDArray[np.int16]


NO_HITS = LiteralHits(np.empty(0, np.int64), np.empty(0, np.int16))


def search_literals(
    data: bytes,
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    table: LiteralTable,
    *,
    compiled: bool,
    capacity: int = HITS_INITIAL,
) -> LiteralHits:
    """Search the pieces of `data` from `begins[i]` to `ends[i]`. Pieces start at line starts."""
    cuts = _cuts(data, begins, ends)
    hit_ends, hit_states, count = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.zeros(1, np.int64)
    tables = cuts, table.columns, table.next, np.zeros(PARTS, np.uint32)
    filled = len(begins), table.first_accepting, capacity, hit_ends, hit_states, count
    jit.run(_search, compiled, data, tables, *filled)
    found = int(count[0])
    if found > capacity:
        return search_literals(data, begins, ends, table, compiled=compiled, capacity=found)
    return _hits(hit_ends[:found], hit_states[:found] // table.width, table) if found else NO_HITS


def _cuts(data: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the starts of the four parts of each piece, and its end. A short piece is not split."""
    cuts = np.empty((len(begins), PARTS + 1), np.int64)
    cuts[:, 0] = begins
    cuts[:, 1:] = ends[:, None]
    for row in np.flatnonzero(ends - begins >= SPLIT_MIN_BYTES):
        begin, end = int(begins[row]), int(ends[row])
        for part in range(1, PARTS):
            newline = data.find(b"\n", begin + part * (end - begin) // PARTS, end)
            cuts[row, part] = newline + 1 or end
    return cuts.reshape(-1)


def _hits(ends: npt.NDArray[np.int64], rows: npt.NDArray[np.integer[Any]], literals: LiteralTable) -> LiteralHits:
    """Add the shorter literals that end at the same place."""
    order = np.argsort(ends)
    ends, rows = ends[order], rows[order]
    found, shorter = literals.longest[rows], literals.next_shorter[rows]
    if shorter.any():
        more = _hits(ends[shorter > 0], shorter[shorter > 0], literals)
        ends, found = np.concatenate([ends, more.ends]), np.concatenate([found, more.literals])
        order = np.argsort(ends, kind="stable")
        ends, found = ends[order], found[order]
    return LiteralHits(ends, found)


def _search(
    data: Any, cuts: Any, columns: Any, next: Any, states: Any, pieces: int, first_found: int, room: int, hit_ends: Any,
    hit_states: Any, count: Any,
) -> None:  # fmt: skip  # one item per line is harder to read
    root = next[columns[10]]  # 0, but unsigned like all states
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
            while step < steps and not found:  # a loop body without anything else compiles to code that is twice as fast
                state_1 = next[state_1 + columns[data[(first + step) & NON_NEGATIVE]]]
                state_2 = next[state_2 + columns[data[(second + step) & NON_NEGATIVE]]]
                state_3 = next[state_3 + columns[data[(third + step) & NON_NEGATIVE]]]
                state_4 = next[state_4 + columns[data[(fourth + step) & NON_NEGATIVE]]]
                found = max(state_1, state_2, state_3, state_4) >= first_found
                step += 1
            states[0], states[1], states[2], states[3] = state_1, state_2, state_3, state_4
            for part in range(4):
                if states[part] >= first_found:
                    if hits < room:
                        hit_ends[hits] = cuts[cut + part] + step
                        hit_states[hits] = states[part]
                    hits += 1
        for part in range(4):  # the rest of each part
            state = states[part]
            for at in range(cuts[cut + part] + steps, cuts[cut + part + 1]):
                state = next[state + columns[data[at & NON_NEGATIVE]]]
                if state >= first_found:
                    if hits < room:
                        hit_ends[hits] = at + 1
                        hit_states[hits] = state
                    hits += 1
    count[0] = hits
