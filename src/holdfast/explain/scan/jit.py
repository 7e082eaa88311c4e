"""Run byte-level functions compiled with numba, or as plain Python.

Compiled functions take a few nanoseconds per byte, and a few seconds to compile the first time. Plain Python starts at once,
which suits a pasted report. These functions work both ways: no objects, no exceptions, numbers that agree modulo 2⁶².
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import Refused

COMPILE_MIN_BYTES = 300_000
"""Input size from which compiling is faster overall."""
NON_NEGATIVE = (1 << 63) - 1
"""Mask that makes an index non-negative, so that compiled code does not check for negative indexes at every byte."""


def run(function: Callable[..., None], compiled: bool, data: bytes, tables: Sequence[npt.NDArray[Any]], *rest: Any) -> None:
    """Run `function` on the data and the tables. Plain Python gets bytes and lists: they are faster than arrays there, and do
    not overflow."""
    if compiled:
        _compile(function)(np.frombuffer(data, np.uint8), *tables, *rest)
    else:
        function(data, *(table.tolist() for table in tables), *rest)


@functools.cache
def _compile(function: Callable[..., None]) -> Callable[..., None]:
    try:
        import numba
    except ImportError as error:
        raise Refused("to read large logs, numba is needed: pip install 'holdfast[explain]'") from error
    function_compiled: Callable[..., None]
    try:
        # The cache is keyed by the file of the code: code in a worker archive has a new path each time.
        function_compiled = numba.njit(cache=Path(__file__).is_file(), nogil=True)(function)
    except RuntimeError:  # no writable cache directory
        function_compiled = numba.njit(nogil=True)(function)
    return function_compiled
