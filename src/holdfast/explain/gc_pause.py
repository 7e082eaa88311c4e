"""Python's collector of cycles, kept from looking at a hundred thousand events again and again: none of them is one."""

import functools
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


@functools.cache
def spare_what_is_there() -> None:
    """Modules, and what is known, stay. A worker of Spark has everything looked at after each task: a twentieth of a second."""
    gc.freeze()
