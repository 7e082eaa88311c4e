"""The file by which a guard ends the session of a dead agent: nobody else can read it, and damage to it harms nobody."""

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
from holdfast.zk.session.connection_settings import Ensemble, Tls
from holdfast.zk.session.session_file import DeadSession

SESSION = DeadSession(
    hosts=(("zk1", 2181), ("::1", 2182)),
    session_id=-0x123456789ABCDEF,
    password=bytes(range(16)),
    timeout_s=4.5,
    tls=None,
)
TLS = {"ca": "ca.pem", "certificate": "me.pem", "key": None, "key_password": "open", "check_hostname": False}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / session_file.NAME


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("tls", [None, TLS], ids=["plain", "tls"])
def test_what_is_written_is_read_back(file: Path, tls: dict[str, object] | None) -> None:
    session = dataclasses.replace(SESSION, tls=tls)
    session_file.write(file, session)
    assert session_file.read(file) == session


@pytest.mark.usefixtures("open_umask")
def test_only_the_owner_may_read_it_whatever_the_umask(file: Path) -> None:
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(file: Path) -> None:
    file.write_text("{}")
    assert file.stat().st_mode & 0o777 == 0o666
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("open_umask")
def test_a_leftover_that_others_could_read_is_not_written_into(file: Path) -> None:
    file.with_suffix(".tmp").write_text("")
    session_file.write(file, SESSION)
    assert file.stat().st_mode & 0o777 == 0o600


def test_writing_replaces_the_file_and_leaves_nothing_else_behind(file: Path) -> None:
    session_file.write(file, SESSION)
    with file.open() as before:
        session_file.write(file, dataclasses.replace(SESSION, session_id=5))
        assert json.load(before)["session_id"] == SESSION.session_id
    assert list(file.parent.iterdir()) == [file]


def test_no_file_is_no_session(file: Path) -> None:
    assert session_file.read(file) is None


def damaged() -> list[bytes]:
    whole = {"hosts": [["zk", 2181]], "session_id": 1, "password": "00", "timeout_s": 4, "tls": None}
    wrong: dict[str, list[object]] = {
        "hosts": [None, 7, ["zk"], [["zk"]], [["zk", "x"]], [["zk", 1, 2]]],
        "session_id": [None, "x", []],
        "password": [None, 7, "0", "zz"],
        "timeout_s": [None, "x", []],
    }
    changed = [whole | {field: value} for field, values in wrong.items() for value in values]
    missing = [{name: value for name, value in whole.items() if name != field} for field in whole]
    return [b"", b"{", b"null", b"[]", b"\xff\xfe", *(json.dumps(fields).encode() for fields in changed + missing)]


@pytest.mark.parametrize("data", damaged(), ids=range(len(damaged())))
def test_a_damaged_file_is_no_session(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert session_file.read(file) is None


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"hosts":[["zk",1]],"session_id":1e999,"password":"00","timeout_s":4,"tls":null}'],
    ids=["deep", "infinite"],
)
def test_an_oddly_damaged_file_is_no_session_either(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert session_file.read(file) is None


def test_a_directory_in_its_place_is_no_session(file: Path) -> None:
    file.mkdir()
    assert session_file.read(file) is None


def test_a_node_keeps_all_it_takes_to_end_its_session(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path)
    tls = Tls(Path("ca.pem"), Path("me.pem"), key_password="open", check_hostname=False)
    directory.keep_session(Ensemble(SESSION.hosts, session_timeout_s=4.5, tls=tls), SessionId(5, b"pass"))
    expected = DeadSession(SESSION.hosts, 5, b"pass", 4.5, TLS, agent_pid=os.getpid())
    assert session_file.read(tmp_path / session_file.NAME) == expected
    leftover = directory.leftover_session()
    assert leftover is not None
    assert leftover.session_id == 5


def nobody() -> tuple[socket.socket, tuple[tuple[str, int], ...]]:
    """A port at which nobody listens, as long as the socket is open."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound, (("127.0.0.1", bound.getsockname()[1]),)


def test_a_zookeeper_that_is_away_leaves_the_session_to_expire() -> None:
    bound, hosts = nobody()
    with bound:
        assert DeadSession(hosts, 1, b"", timeout_s=0.05, tls=None).close() is False


@pytest.mark.parametrize(
    "tls", [{**TLS, "ca": "/nowhere/ca.pem"}, [], {}, {**TLS, "more": 1}], ids=["gone", "list", "empty", "more"]
)
def test_tls_settings_that_can_no_longer_be_used_leave_the_session_to_expire(tls: dict[str, object]) -> None:
    """Certificates are renewed and moved while an agent is down. The next one must start all the same."""
    bound, hosts = nobody()
    with bound:
        assert DeadSession(hosts, 1, b"", timeout_s=0.05, tls=tls).close() is False
