"""HTTP client for promises: batches, nodes of the previous release, and nodes that do not answer."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from starlette.routing import Route

from holdfast.api import failsafe_routes
from holdfast.clock import SystemClock
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.peer_http import HttpPromiseTransport
from holdfast.node.failsafe.promises import FailsafePromises
from tests.harness.node_stub import serve_routes
from tests.harness.processes import python_command
from tests.harness.recording_proxy import start_proxy

SECRET = "0123456789abcdef"
N1, N2 = NodeId("n1"), NodeId("n2")
ATTEMPTS = {JobId(f"j{number}"): Attempt(1) for number in range(50)}

Request = Callable[[NodeId, Mapping[JobId, Attempt]], Awaitable[dict[JobId, str]]]


def open_routes(path: Path, *, started: int = 0) -> list[Route]:
    journal = PromiseJournal(path / "journal")
    promises = FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(started))
    return failsafe_routes.routes(promises, lambda: SECRET, N2)


def run(address: str, test: Callable[[Request], Awaitable[None]], *, secret: str | None = SECRET) -> None:
    async def with_transport() -> None:
        with closing(HttpPromiseTransport(N1, lambda: secret, SystemClock())) as transport:
            await test(lambda node, attempts: transport.request(node, address, attempts, 10.0))

    asyncio.run(with_transport())


def test_batch_is_granted_over_one_connection(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        for _ in range(3):
            assert await request(N2, ATTEMPTS) == dict.fromkeys(ATTEMPTS, "")

    with serve_routes(open_routes(tmp_path)) as address:
        run(address, test)


def test_refusals_name_the_reason(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        answers = await request(N2, {JobId("j1"): Attempt(1), JobId("j2"): Attempt(5)})
        assert answers == {"j1": "attempt 5 was already started on this node", "j2": ""}

    with serve_routes(open_routes(tmp_path, started=5)) as address:
        run(address, test)


def test_connection_is_opened_again_after_a_restart_of_the_node(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        with serve_routes(open_routes(tmp_path), port=port):
            assert await request(N2, ATTEMPTS) == dict.fromkeys(ATTEMPTS, "")
        with pytest.raises(Unavailable):
            await request(N2, ATTEMPTS)
        with serve_routes(open_routes(tmp_path), port=port):
            assert await request(N2, ATTEMPTS) == dict.fromkeys(ATTEMPTS, "")

    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    run(f"http://127.0.0.1:{port}", test)


def test_node_of_the_previous_release_is_asked_singly(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        assert await request(N2, ATTEMPTS) == dict.fromkeys(ATTEMPTS, "")
        assert await request(N2, ATTEMPTS | {JobId("new"): Attempt(1)}) == {"new": ""}, "others are renewed later"

    single, _ = open_routes(tmp_path)
    with serve_routes([single]) as address:
        run(address, test)


def test_single_refusals_name_the_reason(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        answers = await request(N2, {JobId("j1"): Attempt(1), JobId("j2"): Attempt(5)})
        assert answers == {"j1": "attempt 5 was already started on this node", "j2": ""}

    single, _ = open_routes(tmp_path, started=5)
    with serve_routes([single]) as address:
        run(address, test)


def test_answer_of_another_node_is_no_promise(tmp_path: Path) -> None:
    async def test(request: Request) -> None:
        with pytest.raises(Refused, match="node n2 answers at its address"):
            await request(NodeId("n3"), ATTEMPTS)

    with serve_routes(open_routes(tmp_path)) as address:
        run(address, test)


@pytest.mark.parametrize(
    ("secret", "reason"), [("wrong", "the cluster's secret is missing or wrong"), (None, "does not know the cluster's secret")]
)
def test_request_without_the_secret_is_refused(tmp_path: Path, secret: str | None, reason: str) -> None:
    async def test(request: Request) -> None:
        with pytest.raises((Refused, Unavailable), match=reason):
            await request(N2, ATTEMPTS)

    with serve_routes(open_routes(tmp_path)) as address:
        run(address, test, secret=secret)


@pytest.mark.parametrize("answer", [b"", b"noise\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"])
def test_malformed_answer_is_no_promise(answer: bytes) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        transport = HttpPromiseTransport(N1, lambda: SECRET, SystemClock())
        with closing(transport), pytest.raises((Refused, Unavailable)):
            await transport.request(N2, address, ATTEMPTS, 10.0)
        server.close()

    asyncio.run(test())


REQUEST = """
import asyncio, sys
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.failsafe.peer_http import HttpPromiseTransport
transport = HttpPromiseTransport(NodeId("n1"), lambda: sys.argv[2], SystemClock())
print(asyncio.run(transport.request(NodeId("n2"), sys.argv[1], {JobId("j1"): Attempt(1)}, 10.0)))
"""


def test_secret_is_not_sent_to_a_proxy(tmp_path: Path) -> None:
    with start_proxy() as proxy, serve_routes(open_routes(tmp_path)) as address:
        command = python_command(REQUEST, address, SECRET)
        environment = os.environ | proxy.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert proxy.requests == []
    assert done.stdout.strip() == "{'j1': ''}", done.stderr
