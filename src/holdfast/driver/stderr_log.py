"""Messages of Holdfast in the driver's log."""

import contextlib
import os


def log_line(text: str) -> None:
    """Write one line to stderr, prefixed with `holdfast:`.

    It bypasses `sys.stderr`: a daemon thread that holds its lock would block the interpreter's shutdown.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"holdfast: {text}\n".encode(errors="backslashreplace"))
