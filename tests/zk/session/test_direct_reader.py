"""Reads over one blocking connection to a real server."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.target import Target
from holdfast.zk.embedded import ZooKeeperServer
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.session.client import Client, Committed, ConnectionState, Create, NoAuth, Operation, SetData
from holdfast.zk.session.connection_settings import ConnectionSettings, DigestCredentials
from holdfast.zk.session.direct_reader import ANSWER_S, DirectReader, DirectReadFailed, read_directly
from holdfast.zk.session.read_packets import parse_children, parse_reads, parse_stat, parse_znode
from holdfast.zk.session.reader import NoNode, Read, Reader, ReadResult, Stat, Znode
from holdfast.zk.session.server_health import send_four_letter_word
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until, wait_until_async

MANY = 700
"""More reads than fit into one packet."""
Answer = TypeVar("Answer")
ANN = DigestCredentials("ann", "secret")


def settings_for(port: int, digest: DigestCredentials | None = None) -> ConnectionSettings:
    return ConnectionSettings((("127.0.0.1", port),), session_timeout_s=4, digest=digest)


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[TcpProxy]:
    with TcpProxy(server.client_port) as proxy:
        yield proxy


def target_at(port: int, digest: DigestCredentials | None = None) -> Target:
    return Target(settings_for(port, digest), "default", (("1", "127.0.0.1", port),))


def run_as(settings: ConnectionSettings, query: Callable[[Client], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        client = NetworkClient(settings, lambda: None)
        try:
            await wait_until_async(lambda: client.state is ConnectionState.CONNECTED, 30, "a session")
            return await query(client)
        finally:
            await client.close()

    return asyncio.run(run())


def write_as(settings: ConnectionSettings, *operations: Operation) -> None:
    async def write(client: Client) -> None:
        for first in range(0, len(operations), 100):
            assert isinstance(await client.commit(operations[first : first + 100]), Committed)

    run_as(settings, write)


class Reading:
    """Query with every kind of read. A network client and a direct reader must give the same answers."""

    def __init__(self, root: str, paths: list[str]) -> None:
        self._root = root
        self._paths = paths

    async def __call__(self, client: Reader | Client) -> tuple[Znode, Stat | None, Stat | None, list[str], list[ReadResult]]:
        reads = [Read(path) for path in self._paths]
        reads += [Read(f"{self._root}/missing"), Read(self._paths[0], children=True), Read(f"{self._root}/none", children=True)]
        return (
            await client.get(self._root),
            await client.exists(self._root),
            await client.exists(f"{self._root}/missing"),
            sorted(await client.children(self._root)),
            await client.read_many(reads),
        )


@pytest.mark.real
def test_direct_reader_gives_the_same_answers_as_the_network_client(server: ZooKeeperServer, root: str) -> None:
    settings, paths = settings_for(server.client_port), [f"{root}/é{number}" for number in range(MANY)]
    write_as(settings, Create(root, b"root"), *(Create(path, path.encode() * 3) for path in paths))
    write_as(settings, SetData(paths[0], b"x" * 900_000, 0), SetData(paths[1], b"", 0))
    reading = Reading(root, paths)
    direct = read_directly(settings, reading)
    assert direct == run_as(settings, reading)
    assert len(direct[4]) == MANY + 3
    assert direct[4][-3:] == [None, [], None]


@pytest.mark.real
def test_read_of_a_missing_znode_raises_no_node(server: ZooKeeperServer, root: str) -> None:
    for read in (lambda reader: reader.get(root), lambda reader: reader.children(root)):
        with pytest.raises(NoNode, match=f"{root} does not exist"):
            read_directly(settings_for(server.client_port), read)


def count_sessions(server: ZooKeeperServer) -> int:
    answer = send_four_letter_word("127.0.0.1", server.client_port, b"mntr", deadline=time.monotonic() + 30)
    figures = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    return int(figures["zk_global_sessions"])


@pytest.mark.real
def test_session_is_closed_after_an_answer_and_after_an_error(server: ZooKeeperServer) -> None:
    wait_until(lambda: count_sessions(server) == 0, 30, "no session of an earlier test")
    assert read_directly(settings_for(server.client_port), lambda reader: reader.exists("/")) is not None
    assert count_sessions(server) == 0
    with pytest.raises(NoNode):
        read_directly(settings_for(server.client_port), lambda reader: reader.get("/missing"))
    assert count_sessions(server) == 0


@pytest.mark.real
def test_digest_user_reads_its_znodes_and_others_are_denied(server: ZooKeeperServer, root: str) -> None:
    write_as(settings_for(server.client_port, ANN), Create(root, b"private"))
    assert read_directly(settings_for(server.client_port, ANN), lambda reader: reader.get(root)).data == b"private"
    with pytest.raises(DirectReadFailed):
        read_directly(settings_for(server.client_port), lambda reader: reader.get(root))
    with pytest.raises(NoAuth, match="the user or password is wrong or missing"):
        read_with_retry(target_at(server.client_port), lambda reader: reader.get(root))


@pytest.mark.real
def test_second_server_answers_if_the_first_one_refuses_connections(server: ZooKeeperServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        hosts = (unused.getsockname(), ("127.0.0.1", server.client_port))
        for _ in range(10):
            assert read_directly(ConnectionSettings(hosts, session_timeout_s=4), lambda reader: reader.exists("/")) is not None


@pytest.mark.real
def test_query_is_repeated_over_another_session_after_its_connection_is_lost(proxy: TcpProxy) -> None:
    readers: list[Reader] = []

    async def query(reader: Reader) -> Stat | None:
        readers.append(reader)
        if len(readers) == 1:
            proxy.drop_connections()
        return await reader.exists("/")

    assert read_with_retry(target_at(proxy.port), query) is not None
    assert len({type(reader) for reader in readers}) == 2


@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(8), b"\xff\xff\xff\xff", b"\0\0\0\x08" + bytes(8)]
)
def test_server_that_is_not_zookeeper_makes_the_read_fail(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        answered = pool.submit(_greet_one_client, listener, greeting)
        with pytest.raises(DirectReadFailed):
            read_directly(settings_for(listener.getsockname()[1]), lambda reader: reader.exists("/"))
        answered.result(30)


def _greet_one_client(listener: socket.socket, greeting: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(greeting)


@pytest.mark.slow
def test_silent_server_makes_the_read_fail_after_a_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started_at = time.monotonic()
        with pytest.raises(DirectReadFailed):
            read_directly(settings_for(listener.getsockname()[1]), lambda reader: reader.exists("/"))
        assert ANSWER_S <= time.monotonic() - started_at < ANSWER_S + 20


def test_watch_is_not_supported() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ValueError, match="cannot set a watch"):
        asyncio.run(DirectReader(ours).exists("/", watch=True))


@given(st.binary(max_size=200), st.sampled_from([parse_reads, parse_znode, parse_stat, parse_children]))
def test_malformed_reply_raises_only_documented_errors(reply: bytes, parse: Callable[[bytes, int], tuple[object, int]]) -> None:
    with contextlib.suppress(struct.error, UnicodeError, LookupError):
        _, end = parse(reply, 0)
        assert 0 < end <= len(reply)
