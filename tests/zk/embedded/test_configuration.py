"""What the files of an embedded ZooKeeper server say."""

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.embedded.configuration import ServerTls, Settings, as_properties, log4j2, zoo_cfg
from holdfast.zk.embedded.ports import Ports

ONE = {1: Ports(client=11, secure=12, quorum=13, election=14)}
THREE = {id: Ports(client=id * 10, secure=id * 10 + 1, quorum=id * 10 + 2, election=id * 10 + 3) for id in (1, 2, 3)}


def lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_lone_server_listens_on_loopback_only_and_has_no_peers() -> None:
    said = lines(zoo_cfg(1, ONE, Settings()))
    assert said["clientPort"] == "11"
    assert said["clientPortAddress"] == "127.0.0.1"
    assert said["admin.enableServer"] == "false"
    assert said["4lw.commands.whitelist"] == "srvr,mntr,ruok,conf"
    assert said["maxClientCnxns"] == "0"
    assert (said["tickTime"], said["initLimit"], said["syncLimit"]) == ("1000", "10", "5")
    assert not [key for key in said if key.startswith(("server.", "ssl.", "secure"))]


def test_every_member_of_a_quorum_names_all_of_them() -> None:
    said = lines(zoo_cfg(2, THREE, Settings(tick_ms=500, init_limit_ticks=20, sync_limit_ticks=4)))
    assert said["clientPort"] == "20"
    assert said["server.1"] == "127.0.0.1:12:13"
    assert said["server.2"] == "127.0.0.1:22:23"
    assert said["server.3"] == "127.0.0.1:32:33"
    assert (said["tickTime"], said["initLimit"], said["syncLimit"]) == ("500", "20", "4")


def test_tls_requires_client_certificates_and_closes_the_plain_port_unless_asked() -> None:
    tls = ServerTls(Path("/keys/server.pem"), Path("/keys/authority.pem"))
    said = lines(zoo_cfg(1, ONE, Settings(tls=tls)))
    assert "clientPort" not in said
    assert said["secureClientPort"] == "12"
    assert said["secureClientPortAddress"] == "127.0.0.1"
    assert said["ssl.clientAuth"] == "need"
    assert said["serverCnxnFactory"].endswith("NettyServerCnxnFactory")
    assert (said["ssl.keyStore.location"], said["ssl.keyStore.type"]) == ("/keys/server.pem", "PEM")
    assert (said["ssl.trustStore.location"], said["ssl.trustStore.type"]) == ("/keys/authority.pem", "PEM")
    both = ServerTls(tls.key_store, tls.trust_store, plain_port=True)
    assert lines(zoo_cfg(1, ONE, Settings(tls=both)))["clientPort"] == "11"


def test_extra_settings_win() -> None:
    said = lines(zoo_cfg(1, ONE, Settings(extra={"tickTime": "2000", "snapCount": "7"})))
    assert said["tickTime"] == "2000"
    assert said["snapCount"] == "7"


@pytest.mark.parametrize("key", ["", "two words", "a=b", "a:b", "#a", "schlüssel", "a\nb"])
def test_a_setting_whose_name_java_would_misread_is_refused(key: str) -> None:
    with pytest.raises(Refused, match="is not the name of a ZooKeeper setting"):
        zoo_cfg(1, ONE, Settings(extra={key: "value"}))


def test_values_are_escaped_as_java_reads_them() -> None:
    assert as_properties({"path": "/tmp/ä b\\c"}) == "path=/tmp/\\u00e4 b\\\\c\n"
    assert as_properties({"k": " x\n"}) == "k=\\ x\\u000a\n"
    assert as_properties({"k": "𝛼"}) == "k=\\ud835\\udefc\n"


def test_the_log_carries_the_id_in_every_line_and_is_bounded() -> None:
    said = lines(log4j2(3))
    assert "[myid:3] - %-5p [%t:%C{1}@%L] - %m%n" in said["appender.file.layout.pattern"]
    assert said["appender.file.policies.size.size"] == "10MB"
    assert said["appender.file.strategy.max"] == "3"
