"""Pause the cyclic garbage collector: scanned events never form cycles, and examining them repeatedly takes time."""

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the collector within the block, or within the decorated function."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def freeze_existing_objects() -> None:
    """Exempt modules and the library from collection. A Spark worker collects after each task, which takes 50 ms otherwise."""
    gc.freeze()
