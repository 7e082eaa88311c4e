"""Limits of a node's HTTP connections, with real sockets: clients without the secret cannot lock out the other nodes."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.api import failsafe_routes
from holdfast.api.connection_limits import BODY_TIMEOUT_S, CONNECTIONS_MAX, HEAD_TIMEOUT_S
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.promises import FailsafePromises
from tests.harness.node_stub import serve_routes
from tests.harness.waiting import wait_until

SECRET = "0123456789abcdef"
HALF_OPEN = 200


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    journal = PromiseJournal(tmp_path / "journal")
    promises = FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(0))
    with serve_routes(failsafe_routes.routes(promises, lambda: SECRET, NodeId("n1"))) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        yield parts.hostname, parts.port


def request_promise(connection: http.client.HTTPConnection) -> int:
    body = json.dumps({"job": "j1", "attempt": 1, "period_s": 5})
    connection.request("POST", "/v1/promises", body, {"Authorization": f"Bearer {SECRET}"})
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


class HalfOpenConnections:
    """Connections with an incomplete request head, opened again as soon as the node closes them."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._stopping = False
        self.opened = 0
        self._threads = [threading.Thread(target=self._hold, args=(HALF_OPEN // 4,)) for _ in range(4)]

    def __enter__(self) -> "HalfOpenConnections":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join(30)

    def _hold(self, count: int) -> None:
        with contextlib.ExitStack() as stack:
            held: list[socket.socket] = []
            while not self._stopping:
                held = [each for each in held if not is_closed(each)]
                while len(held) < count:
                    held.append(stack.enter_context(socket.create_connection(self._address, timeout=10)))
                    with contextlib.suppress(OSError):
                        held[-1].sendall(b"GET /v1/node HTTP/1.1\r\nX: ")
                    self.opened += 1
                time.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(100) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def time_until_closed(connection: socket.socket, within_s: float) -> float:
    started_at = time.monotonic()
    wait_until(lambda: is_closed(connection), within_s, "the node closes the connection")
    return time.monotonic() - started_at


def test_promise_is_granted_while_strangers_hold_and_reopen_all_connections(address: tuple[str, int]) -> None:
    with HalfOpenConnections(address) as strangers:
        wait_until(lambda: strangers.opened > 2 * CONNECTIONS_MAX, 30, "the strangers exceed the limit")
        for _ in range(20):
            connection = http.client.HTTPConnection(*address, timeout=1)
            with contextlib.closing(connection):
                assert request_promise(connection) == 200


def test_connection_that_has_sent_the_secret_stays_open(address: tuple[str, int]) -> None:
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=10)) as peer:
        assert request_promise(peer) == 200
        used = peer.sock
        with HalfOpenConnections(address) as strangers:
            wait_until(lambda: strangers.opened > 3 * CONNECTIONS_MAX, 30, "the strangers exceed the limit")
            assert request_promise(peer) == 200
        assert peer.sock is used


@pytest.mark.parametrize(
    ("sent", "limit_s"),
    [
        (b"", HEAD_TIMEOUT_S),
        (b"POST /v1/promises HTTP/1.1\r\nHost: n1\r\nX: ", HEAD_TIMEOUT_S),
        (
            f"POST /v1/promises HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer {SECRET}\r\nContent-Length: 9\r\n\r\n{{".encode(),
            BODY_TIMEOUT_S,
        ),
    ],
    ids=["nothing", "part of a head", "part of a body"],
)
def test_incomplete_request_is_closed_after_its_time_limit(address: tuple[str, int], sent: bytes, limit_s: float) -> None:
    with contextlib.closing(socket.create_connection(address)) as connection:
        connection.sendall(sent)
        assert time_until_closed(connection, limit_s + 10) > limit_s - 1


def test_single_bytes_do_not_extend_the_time_limit(address: tuple[str, int]) -> None:
    with contextlib.closing(socket.create_connection(address)) as connection:
        started_at = time.monotonic()
        while not is_closed(connection) and time.monotonic() < started_at + 2 * HEAD_TIMEOUT_S:
            with contextlib.suppress(OSError):
                connection.send(b"G")
            time.sleep(0.2)
        assert is_closed(connection)


def test_body_after_an_early_answer_does_not_keep_the_connection(address: tuple[str, int]) -> None:
    with contextlib.closing(socket.create_connection(address)) as connection:
        connection.sendall(b"POST /v1/promises HTTP/1.1\r\nHost: n1\r\nContent-Length: 1000\r\n\r\n")
        connection.settimeout(10)
        assert b"401" in connection.recv(1000)
        started_at = time.monotonic()
        while not is_closed(connection) and time.monotonic() < started_at + 2 * BODY_TIMEOUT_S:
            with contextlib.suppress(OSError):
                connection.send(b"x")
            time.sleep(0.2)
        assert is_closed(connection)
