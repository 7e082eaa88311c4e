"""Python's collector of cycles, kept from looking at a hundred thousand events again and again: none of them is one."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """While it lasts, or while the function runs that it stands above."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
