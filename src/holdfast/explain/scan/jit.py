"""Functions that run compiled (numba) or as they stand.

Compiled they take some nanoseconds a byte, and the first time a few seconds to compile; as plain Python they start at once,
which is right for a pasted report. They are written for both: no objects, no exceptions, numbers that are the same modulo 2⁶².
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import Refused

COMPILED_FROM_BYTES = 300_000
"""To compile pays from about here."""
UNSIGNED = (1 << 63) - 1
"""A place that was and-ed with it has no sign. Else compiled code looks, at every byte, whether to count from the end."""


def run(function: Callable[..., None], compiled: bool, data: bytes, tables: Sequence[npt.NDArray[Any]], *rest: Any) -> None:
    """Of bytes and of tables, Python's own are faster to look at than numpy's, and do not overflow."""
    if compiled:
        _compiled(function)(np.frombuffer(data, np.uint8), *tables, *rest)
    else:
        function(data, *(table.tolist() for table in tables), *rest)


@functools.cache
def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    try:
        import numba
    except ImportError as error:
        raise Refused("to read large logs, numba is needed: pip install 'holdfast[explain]'") from error
    made: Callable[..., None]
    try:
        # What is kept goes by where the code is: code in an archive that came with a question is nowhere a second time.
        made = numba.njit(cache=Path(__file__).is_file(), nogil=True)(function)
    except RuntimeError:  # nowhere to keep it
        made = numba.njit(nogil=True)(function)
    return made
