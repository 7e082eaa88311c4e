"""A link to a server that is slow in one direction: from the client to the server."""

import contextlib
import socket
import threading
import time
from typing import Self

_PIECE = 1 << 16


class SlowLink:
    def __init__(self, port: int, bytes_per_s: float) -> None:
        self._target = port
        self._pause_s = _PIECE / bytes_per_s
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=_pump, args=(client, server, self._pause_s), daemon=True).start()
                threading.Thread(target=_pump, args=(server, client, 0.0), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, pause_s: float) -> None:
    with contextlib.suppress(OSError), source, sink:
        while data := source.recv(_PIECE):
            sink.sendall(data)
            time.sleep(pause_s * len(data) / _PIECE)
