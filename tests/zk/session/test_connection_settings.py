"""Connect strings, and settings whose repr hides secrets."""

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import ConnectionSettings, DigestCredentials, Tls, parse_connect_string
from holdfast.zk.session.session_file import StoredSession

SECRET = "hunter2-is-secret"


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zk", [("zk", 2181)], ""),
        ("zk:1", [("zk", 1)], ""),
        ("zk:65535", [("zk", 65535)], ""),
        ("a:1,b:2,c", [("a", 1), ("b", 2), ("c", 2181)], ""),
        (" a:1 , b:2 ", [("a", 1), ("b", 2)], ""),
        ("10.0.0.5:2182", [("10.0.0.5", 2182)], ""),
        ("zk:1/team", [("zk", 1)], "/team"),
        ("zk/team/blue/", [("zk", 2181)], "/team/blue"),
        ("zk:1/", [("zk", 1)], ""),
        ("[::1]", [("::1", 2181)], ""),
        ("[::1]:5", [("::1", 5)], ""),
        ("[fe80::1]:5,[fe80::2],c:6/x", [("fe80::1", 5), ("fe80::2", 2181), ("c", 6)], "/x"),
    ],
)
def test_connect_string_is_parsed_into_hosts_and_chroot(text: str, hosts: list[tuple[str, int]], chroot: str) -> None:
    assert parse_connect_string(text) == (tuple(hosts), chroot)


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "/x", "zk:", "zk:0", "zk:65536", "zk:-1", "zk:x", "zk:²", "zk:1.5", ":2181", "a:1,,b:2", "a:1,", "[]:1"],
)
def test_invalid_connect_string_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(Refused, match="is not a ZooKeeper address") as refused:
        parse_connect_string(text)
    assert f"'{text}'" in str(refused.value)


def test_chroot_with_an_empty_part_is_refused() -> None:
    with pytest.raises(Refused, match="a part of its path is empty"):
        parse_connect_string("zk:1/a//b")


@pytest.mark.parametrize("text", ["::1", "fe80::1", "[::1]x:2181", "[zk:2181", "zk]:2181", "a b:2181"])
def test_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_connect_string(text)


def test_port_with_thousands_of_digits_is_refused() -> None:
    with pytest.raises(Refused):
        parse_connect_string("zk:" + "1" * 5000)


@pytest.mark.parametrize("text", ["a:1,b:2/x", "[::1]:5,[fe80::2]:6", "zk"])
def test_connect_string_of_settings_parses_to_the_same_hosts(text: str) -> None:
    hosts, chroot = parse_connect_string(text)
    assert parse_connect_string(ConnectionSettings(hosts, chroot).connect_string) == (hosts, chroot)


def test_repr_of_settings_hides_secrets() -> None:
    digest = DigestCredentials("ann", SECRET)
    tls = Tls(Path("ca.pem"), Path("me.pem"), Path("me.key"), key_password=SECRET)
    for settings in (digest, tls, ConnectionSettings((("zk", 1),), digest=digest, tls=tls)):
        assert SECRET not in repr(settings)
        assert SECRET not in f"{settings}"
    assert "ann" in repr(digest)


@pytest.mark.parametrize(
    "session",
    [SessionId(1, SECRET.encode()), StoredSession((("zk", 1),), 1, SECRET.encode(), 4.0, {"key_password": SECRET})],
    ids=lambda session: type(session).__name__,
)
def test_repr_of_a_session_hides_its_password(session: object) -> None:
    assert SECRET not in repr(session)


def test_error_for_missing_tls_files_names_them_and_hides_the_password(tmp_path: Path) -> None:
    tls = Tls(tmp_path / "ca.pem", tmp_path / "me.pem", tmp_path / "me.key", key_password=SECRET)
    with pytest.raises(Refused) as refused:
        tls.context()
    assert all(str(tmp_path / name) in str(refused.value) for name in ("ca.pem", "me.pem", "me.key"))
    assert SECRET not in str(refused.value)
