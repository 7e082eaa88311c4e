"""TCP proxy on loopback that injects faults between a real client and a real server."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_PING = (-2).to_bytes(4, "big", signed=True)
Result = TypeVar("Result")


class TcpProxy:
    """Proxy of one server. The switches may be set from any thread and apply to current and future connections."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.refuses_connections = False
        """True: new connections are closed at once."""
        self.drops_requests = False
        """True: data from the client is dropped."""
        self.drops_replies = False
        """True: data from the server is dropped."""
        self.drops_replies_except_pings = False
        """True: replies of the server are dropped except replies to pings, so the server seems alive but does nothing."""
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._run_in_loop(lambda: asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _run_in_loop(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(30)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses_connections:
            writer.close()
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        ends = {writer, upstream_writer}
        self._connections |= ends
        up = asyncio.ensure_future(self._pump(reader, upstream_writer, lambda: self.drops_requests))
        down = asyncio.ensure_future(self._pump_replies(upstream_reader, writer))
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.close()
        for pump in (up, down):
            pump.cancel()
        self._connections -= ends

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, dropped: Callable[[], bool]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not dropped():
                    sink.write(data)
                    await sink.drain()

    async def _pump_replies(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Forward replies frame by frame. A frame is a length, followed by the number of the answered request."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(head, "big"))
                is_ping = frame[:4] == _PING
                if not self.drops_replies and (is_ping or not self.drops_replies_except_pings):
                    sink.write(head + frame)
                    await sink.drain()

    def drop_connections(self) -> None:
        """Abort every connection."""

        async def close() -> None:
            for end in list(self._connections):
                end.transport.abort()

        self._run_in_loop(close)

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for connection in list(self._connections):
                connection.transport.abort()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        try:
            self._run_in_loop(end)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> "TcpProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
