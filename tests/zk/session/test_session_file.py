"""The session file: only its owner can read it, and a malformed file is ignored."""

import dataclasses
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.node.node_directory import NodeDirectory
from holdfast.zk.session import session_file
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import ConnectionSettings, Tls
from holdfast.zk.session.session_file import StoredSession

SESSION = StoredSession(
    hosts=(("zk1", 2181), ("::1", 2182)),
    session_id=-0x123456789ABCDEF,
    password=bytes(range(16)),
    timeout_s=4.5,
    tls=None,
)
TLS = {"ca": "ca.pem", "certificate": "me.pem", "key": None, "key_password": "open", "check_hostname": False}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / session_file.FILE_NAME


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("tls", [None, TLS], ids=["plain", "tls"])
def test_written_session_is_read_back(file: Path, tls: dict[str, object] | None) -> None:
    session = dataclasses.replace(SESSION, tls=tls)
    session_file.write(file, session)
    assert session_file.read(file) == session


@pytest.mark.usefixtures("open_umask")
def test_session_file_is_readable_only_by_its_owner_with_any_umask(file: Path) -> None:
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("open_umask")
def test_world_readable_session_file_is_replaced_by_a_private_one(file: Path) -> None:
    file.write_text("{}")
    assert file.stat().st_mode & 0o777 == 0o666
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("open_umask")
def test_world_readable_temporary_file_is_not_reused(file: Path) -> None:
    file.with_suffix(".tmp").write_text("")
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


def test_write_replaces_the_file_atomically_and_leaves_no_temporary_file(file: Path) -> None:
    session_file.write(file, SESSION)
    with file.open() as before:
        session_file.write(file, dataclasses.replace(SESSION, session_id=5))
        assert json.load(before)["session_id"] == SESSION.session_id
    assert list(file.parent.iterdir()) == [file]


def test_missing_file_gives_no_session(file: Path) -> None:
    assert session_file.read(file) is None


def malformed_files() -> list[bytes]:
    valid = {"hosts": [["zk", 2181]], "session_id": 1, "password": "00", "timeout_s": 4, "tls": None}
    wrong: dict[str, list[object]] = {
        "hosts": [None, 7, ["zk"], [["zk"]], [["zk", "x"]], [["zk", 1, 2]]],
        "session_id": [None, "x", []],
        "password": [None, 7, "0", "zz"],
        "timeout_s": [None, "x", []],
    }
    changed = [valid | {field: value} for field, values in wrong.items() for value in values]
    missing = [{name: value for name, value in valid.items() if name != field} for field in valid]
    return [b"", b"{", b"null", b"[]", b"\xff\xfe", *(json.dumps(fields).encode() for fields in changed + missing)]


@pytest.mark.parametrize("data", malformed_files(), ids=range(len(malformed_files())))
def test_malformed_file_gives_no_session(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert session_file.read(file) is None


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"hosts":[["zk",1]],"session_id":1e999,"password":"00","timeout_s":4,"tls":null}'],
    ids=["deep", "infinite"],
)
def test_deeply_nested_or_infinite_json_gives_no_session(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert session_file.read(file) is None


def test_directory_instead_of_a_file_gives_no_session(file: Path) -> None:
    file.mkdir()
    assert session_file.read(file) is None


def test_node_saves_everything_needed_to_close_its_session(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path)
    tls = Tls(Path("ca.pem"), Path("me.pem"), key_password="open", check_hostname=False)
    directory.save_session(ConnectionSettings(SESSION.hosts, session_timeout_s=4.5, tls=tls), SessionId(5, b"pass"))
    expected = StoredSession(SESSION.hosts, 5, b"pass", 4.5, TLS, agent_pid=os.getpid())
    assert session_file.read(tmp_path / session_file.FILE_NAME) == expected
    leftover = directory.read_previous_session()
    assert leftover is not None
    assert leftover.session_id == 5


def closed_port() -> tuple[socket.socket, tuple[tuple[str, int], ...]]:
    """Return a bound socket that does not listen, and its address."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound, (("127.0.0.1", bound.getsockname()[1]),)


def test_close_returns_false_if_no_server_answers() -> None:
    bound, hosts = closed_port()
    with bound:
        assert StoredSession(hosts, 1, b"", timeout_s=0.05, tls=None).close() is False


@pytest.mark.parametrize(
    "tls", [{**TLS, "ca": "/nowhere/ca.pem"}, [], {}, {**TLS, "more": 1}], ids=["gone", "list", "empty", "more"]
)
def test_close_returns_false_if_the_tls_settings_are_unusable(tls: dict[str, object]) -> None:
    """Certificate files may be moved while an agent is down. The next agent must start nevertheless."""
    bound, hosts = closed_port()
    with bound:
        assert StoredSession(hosts, 1, b"", timeout_s=0.05, tls=tls).close() is False
