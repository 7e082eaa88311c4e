"""Bytes on their way from one place to another, and their SHA-256."""

import hashlib
import re
from collections.abc import Callable

from holdfast.errors import Refused

ReadInto = Callable[[memoryview], int]
"""Fills the buffer from its start and says how much of it; 0 at the end."""
Write = Callable[[memoryview], None]
"""Takes all of it."""

CHUNK_BYTES = 128 << 10
"""Larger is dearer: to put 1 GB took 1.9 to 2.1 s of CPU with this and 2.5 to 3.8 s with 1 MB, in six alternating rounds."""
_DIGEST = re.compile("[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def check_digest(text: str) -> None:
    """Whatever becomes a file's name goes through here first, so that nothing leads out of the folder."""
    if not is_digest(text):
        raise Refused(f"{text[:80]!r} is not the name of a blob: expected the 64 hexadecimal digits of a SHA-256")


def copy(read_into: ReadInto, write: Write) -> tuple[str, int]:
    """The digest and size of what was copied, however much the source changes meanwhile."""
    sha256, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(CHUNK_BYTES))
    while count := read_into(buffer):
        piece = buffer[:count]
        sha256.update(piece)
        write(piece)
        size += count
    return sha256.hexdigest(), size


def digest_of(read_into: ReadInto) -> tuple[str, int]:
    return copy(read_into, lambda _piece: None)
