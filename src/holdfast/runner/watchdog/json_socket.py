"""The socket between a runner and its watchdog: lines of JSON. Standard library only: the watchdog imports this."""

import json
import os

LINE_BYTES_MAX = 4 * 1024 * 1024
DEADLINE_PASSED = "the deadline has passed"
"""Reason that the watchdog reports when it kills the driver at its deadline."""


class Garbage(Exception):
    """Something on the socket that no runner sends."""


class Line:
    """One end of the socket between runner and watchdog. Never waits: whoever is paused does not read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.closed = False
        self._received = b""
        self._unsent = b""
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    def read(self) -> list[dict[str, object]]:
        """The messages that have come. Raises Garbage."""
        try:
            while len(self._received) <= LINE_BYTES_MAX:
                data = os.read(self.descriptor, 1 << 16)
                if not data:
                    self.closed = True
                    break
                self._received += data
        except BlockingIOError:
            pass
        except ConnectionError:
            self.closed = True
        *lines, self._received = self._received.split(b"\n")
        if len(self._received) > LINE_BYTES_MAX:
            raise Garbage
        return [_decode(line) for line in lines]

    def say(self, **message: object) -> None:
        # Lines are few and short, so that this bound is never met. It is there so that nothing can grow.
        if len(self._unsent) < LINE_BYTES_MAX:
            self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Whether everything is sent, or nobody is there to read it."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.descriptor, self._unsent) :]
        except BlockingIOError:
            return False
        except ConnectionError:
            self._unsent = b""
        return True


def _decode(line: bytes) -> dict[str, object]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Garbage from error
    if not isinstance(message, dict):
        raise Garbage
    return message
