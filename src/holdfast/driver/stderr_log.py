"""What this package has to say to whoever reads the driver's log."""

import contextlib
import os


def say(text: str) -> None:
    """One line on stderr. Not through `sys.stderr`: a daemon thread that holds its lock would hang the interpreter's end."""
    with contextlib.suppress(OSError):
        os.write(2, f"holdfast: {text}\n".encode(errors="backslashreplace"))
