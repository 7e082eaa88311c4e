"""Socket between a runner and its watchdog, for lines of JSON. Standard library only: the watchdog imports this."""

import json
import os

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
DEADLINE_PASSED = "the deadline has passed"
"""Reason that the watchdog reports when it kills the driver at its deadline."""


class MalformedMessage(Exception):
    """A message that neither a runner nor a watchdog sends."""


class JsonSocket:
    """One end of the socket. It never blocks, because the other process may be paused."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.closed = False
        self._received = b""
        self._unsent = b""
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    def receive(self) -> list[dict[str, object]]:
        """Return the messages that have arrived. Raises MalformedMessage."""
        try:
            while len(self._received) <= MESSAGE_BYTES_MAX:
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
        if len(self._received) > MESSAGE_BYTES_MAX:
            raise MalformedMessage
        return [_decode(line) for line in lines]

    def send(self, **message: object) -> None:
        # Messages are few and short; the limit only bounds the memory while the other process is paused.
        if len(self._unsent) < MESSAGE_BYTES_MAX:
            self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Send buffered messages. Return True if none is left, or if the other end is closed."""
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
        raise MalformedMessage from error
    if not isinstance(message, dict):
        raise MalformedMessage
    return message
