"""How a ZooKeeper is addressed, and that nobody learns a secret from printing the settings."""

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import Digest, Ensemble, Tls, parse_connect
from holdfast.zk.session.session_file import DeadSession

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
def test_an_address_is_hosts_with_ports_and_a_path(text: str, hosts: list[tuple[str, int]], chroot: str) -> None:
    assert parse_connect(text) == (tuple(hosts), chroot)


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "/x", "zk:", "zk:0", "zk:65536", "zk:-1", "zk:x", "zk:²", "zk:1.5", ":2181", "a:1,,b:2", "a:1,", "[]:1"],
)
def test_what_is_no_address_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(Refused, match="is not a ZooKeeper address") as refused:
        parse_connect(text)
    assert f"'{text}'" in str(refused.value)


def test_a_path_with_an_empty_part_is_refused() -> None:
    with pytest.raises(Refused, match="its path has an empty part"):
        parse_connect("zk:1/a//b")


@pytest.mark.parametrize("text", ["::1", "fe80::1", "[::1]x:2181", "[zk:2181", "zk]:2181", "a b:2181"])
def test_a_host_that_cannot_be_one_is_refused_and_not_guessed_at(text: str) -> None:
    with pytest.raises(Refused):
        parse_connect(text)


def test_a_port_of_absurd_length_is_refused_in_a_sentence() -> None:
    with pytest.raises(Refused):
        parse_connect("zk:" + "1" * 5000)


@pytest.mark.parametrize("text", ["a:1,b:2/x", "[::1]:5,[fe80::2]:6", "zk"])
def test_what_is_shown_as_the_address_leads_to_the_same_servers(text: str) -> None:
    hosts, chroot = parse_connect(text)
    assert parse_connect(Ensemble(hosts, chroot).connect) == (hosts, chroot)


def test_settings_can_be_printed_without_telling_a_secret() -> None:
    digest = Digest("ann", SECRET)
    tls = Tls(Path("ca.pem"), Path("me.pem"), Path("me.key"), key_password=SECRET)
    for settings in (digest, tls, Ensemble((("zk", 1),), digest=digest, tls=tls)):
        assert SECRET not in repr(settings)
        assert SECRET not in f"{settings}"
    assert "ann" in repr(digest)


@pytest.mark.parametrize(
    "session",
    [SessionId(1, SECRET.encode()), DeadSession((("zk", 1),), 1, SECRET.encode(), 4.0, {"key_password": SECRET})],
    ids=lambda session: type(session).__name__,
)
def test_a_session_can_be_printed_without_telling_how_to_end_it(session: object) -> None:
    assert SECRET not in repr(session)


def test_tls_files_that_are_missing_are_named_and_the_password_is_not(tmp_path: Path) -> None:
    tls = Tls(tmp_path / "ca.pem", tmp_path / "me.pem", tmp_path / "me.key", key_password=SECRET)
    with pytest.raises(Refused) as refused:
        tls.context()
    assert all(str(tmp_path / name) in str(refused.value) for name in ("ca.pem", "me.pem", "me.key"))
    assert SECRET not in str(refused.value)
