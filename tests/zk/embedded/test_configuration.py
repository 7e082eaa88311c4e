"""Configuration files of an embedded ZooKeeper server."""

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.zk.embedded.configuration import ServerSettings, ServerTls, format_properties, log4j2_properties, zoo_cfg
from holdfast.zk.embedded.ports import Ports

STANDALONE = {1: Ports(client=11, secure=12, quorum=13, election=14)}
QUORUM = {id: Ports(client=id * 10, secure=id * 10 + 1, quorum=id * 10 + 2, election=id * 10 + 3) for id in (1, 2, 3)}


def parse_properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_standalone_server_listens_on_loopback_only_and_has_no_peers() -> None:
    properties = parse_properties(zoo_cfg(1, STANDALONE, ServerSettings()))
    assert properties["clientPort"] == "11"
    assert properties["clientPortAddress"] == "127.0.0.1"
    assert properties["admin.enableServer"] == "false"
    assert properties["4lw.commands.whitelist"] == "srvr,mntr,ruok,conf"
    assert properties["maxClientCnxns"] == "0"
    assert (properties["tickTime"], properties["initLimit"], properties["syncLimit"]) == ("1000", "10", "5")
    assert not [key for key in properties if key.startswith(("server.", "ssl.", "secure"))]


def test_configuration_of_each_member_lists_all_members() -> None:
    properties = parse_properties(zoo_cfg(2, QUORUM, ServerSettings(tick_ms=500, init_limit_ticks=20, sync_limit_ticks=4)))
    assert properties["clientPort"] == "20"
    assert properties["server.1"] == "127.0.0.1:12:13"
    assert properties["server.2"] == "127.0.0.1:22:23"
    assert properties["server.3"] == "127.0.0.1:32:33"
    assert (properties["tickTime"], properties["initLimit"], properties["syncLimit"]) == ("500", "20", "4")


def test_tls_requires_client_certificates_and_closes_the_plain_port_by_default() -> None:
    tls = ServerTls(Path("/keys/server.pem"), Path("/keys/authority.pem"))
    properties = parse_properties(zoo_cfg(1, STANDALONE, ServerSettings(tls=tls)))
    assert "clientPort" not in properties
    assert properties["secureClientPort"] == "12"
    assert properties["secureClientPortAddress"] == "127.0.0.1"
    assert properties["ssl.clientAuth"] == "need"
    assert properties["serverCnxnFactory"].endswith("NettyServerCnxnFactory")
    assert (properties["ssl.keyStore.location"], properties["ssl.keyStore.type"]) == ("/keys/server.pem", "PEM")
    assert (properties["ssl.trustStore.location"], properties["ssl.trustStore.type"]) == ("/keys/authority.pem", "PEM")
    both = ServerTls(tls.key_store, tls.trust_store, plain_port=True)
    assert parse_properties(zoo_cfg(1, STANDALONE, ServerSettings(tls=both)))["clientPort"] == "11"


def test_extra_settings_override_others() -> None:
    properties = parse_properties(zoo_cfg(1, STANDALONE, ServerSettings(extra={"tickTime": "2000", "snapCount": "7"})))
    assert properties["tickTime"] == "2000"
    assert properties["snapCount"] == "7"


@pytest.mark.parametrize("key", ["", "two words", "a=b", "a:b", "#a", "schlüssel", "a\nb"])
def test_setting_with_an_invalid_name_is_refused(key: str) -> None:
    with pytest.raises(Refused, match="is not a valid name of a ZooKeeper setting"):
        zoo_cfg(1, STANDALONE, ServerSettings(extra={key: "value"}))


def test_values_are_escaped_for_java() -> None:
    assert format_properties({"path": "/tmp/ä b\\c"}) == "path=/tmp/\\u00e4 b\\\\c\n"
    assert format_properties({"k": " x\n"}) == "k=\\ x\\u000a\n"
    assert format_properties({"k": "𝛼"}) == "k=\\ud835\\udefc\n"


def test_log_has_the_server_id_in_every_line_and_a_size_limit() -> None:
    properties = parse_properties(log4j2_properties(3))
    assert "[myid:3] - %-5p [%t:%C{1}@%L] - %m%n" in properties["appender.file.layout.pattern"]
    assert properties["appender.file.policies.size.size"] == "10MB"
    assert properties["appender.file.strategy.max"] == "3"
