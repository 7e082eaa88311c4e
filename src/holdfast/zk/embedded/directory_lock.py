"""Lock on a server's directory, held for the lifetime of the server process."""

import fcntl
import os
import time
from pathlib import Path

WAIT_S = 3.0
"""Time to wait for a server that is ending because its owner has just died."""
POLL_S = 0.02


class DirectoryLock:
    """Exclusive file lock that the server process inherits.

    The kernel releases it when both the owner and the server have ended.

    ZooKeeper itself does not prevent two servers from writing to the same data directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock, and return False if another process holds it. Raises OSError if the directory is unusable."""
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

    def inheritable_fds(self) -> tuple[int, ...]:
        """Return the file descriptors that a child process must inherit to hold the lock too."""
        return () if self._file is None else (self._file,)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
