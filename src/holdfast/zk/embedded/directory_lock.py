"""The lock on a server's directory, held by the server's own process for as long as it lives."""

import fcntl
import os
import time
from pathlib import Path

WAIT_S = 3.0
"""How long to wait for a server whose owner died a moment ago."""
POLL_S = 0.02


class Claim:
    """Held through an open file that the server inherits: the kernel gives it up when both it and its owner are gone.

    Nothing else keeps two ZooKeeper servers from writing the same data; ZooKeeper itself does not.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    def take(self) -> bool:
        """Whether this process holds it now, or did already. Raises OSError if the directory cannot be used."""
        if self._file is not None:
            return True
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(file)
                    return False
                time.sleep(POLL_S)
            else:
                self._file = file
                return True

    def inherited(self) -> tuple[int, ...]:
        """What a child must be started with to hold it too."""
        return () if self._file is None else (self._file,)

    def give_up(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
