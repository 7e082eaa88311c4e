"""TCP proxy that limits the bandwidth from the client to the server."""

import contextlib
import socket
import threading
import time
from typing import Self

_CHUNK_BYTES = 1 << 16


class SlowLink:
    def __init__(self, port: int, bytes_per_s: float) -> None:
        self._server_port = port
        self._pause_s = _CHUNK_BYTES / bytes_per_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                threading.Thread(target=_forward, args=(client, server, self._pause_s), daemon=True).start()
                threading.Thread(target=_forward, args=(server, client, 0.0), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, pause_s: float) -> None:
    with contextlib.suppress(OSError), source, sink:
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
            time.sleep(pause_s * len(data) / _CHUNK_BYTES)
