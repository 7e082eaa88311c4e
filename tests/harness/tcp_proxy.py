"""A TCP proxy on loopback that misbehaves on demand, to stand between a real client and a real server."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

_PING = (-2).to_bytes(4, "big", signed=True)


class Proxy:
    """Forwards to one server. The switches may be set from any thread and hold for present and future connections."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.refusing = False
        """New connections are closed at once."""
        self.requests_lost = False
        """What the client sends is swallowed."""
        self.replies_lost = False
        """What the server sends is swallowed."""
        self.only_pings_answered = False
        """Of what the server sends, only ZooKeeper's answers to pings get through: it looks alive and does nothing."""
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._in_loop(lambda: asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _in_loop(self, make: Callable[[], object]) -> "asyncio.Server":
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(30)  # type: ignore[arg-type,return-value]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.close()
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        ends = {writer, upstream_writer}
        self._connections |= ends
        up = asyncio.ensure_future(self._pump(reader, upstream_writer, lambda: self.requests_lost))
        down = asyncio.ensure_future(self._pump_replies(upstream_reader, writer))
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.close()
        for pump in (up, down):
            pump.cancel()
        self._connections -= ends

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, lost: Callable[[], bool]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not lost():
                    sink.write(data)
                    await sink.drain()

    async def _pump_replies(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Frame by frame: a length, then the number of the request that is answered."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(head, "big"))
                is_ping = frame[:4] == _PING
                if not self.replies_lost and (is_ping or not self.only_pings_answered):
                    sink.write(head + frame)
                    await sink.drain()

    def cut(self) -> None:
        """Close every connection, now."""

        async def close() -> None:
            for end in list(self._connections):
                end.transport.abort()

        self._in_loop(close)

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for connection in list(self._connections):
                connection.transport.abort()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._in_loop(end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
