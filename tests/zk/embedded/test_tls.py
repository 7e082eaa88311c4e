"""A real server with TLS that requires client certificates."""

import ssl
import time
import warnings
from pathlib import Path

import pytest
import trustme

from holdfast.errors import Refused
from holdfast.zk.embedded import EmbeddedEnsemble, Ports, ServerSettings, ServerTls, ZooKeeperServer
from holdfast.zk.embedded.ports import LOOPBACK
from holdfast.zk.session.connection_settings import ConnectionSettings, Tls
from holdfast.zk.session.direct_reader import read_directly
from holdfast.zk.session.server_health import read_health, send_four_letter_word

with warnings.catch_warnings():
    # The library warns about its deprecated algorithms on import.
    warnings.simplefilter("ignore")
    from cryptography.hazmat.primitives import serialization


def write_key_store(certificate: trustme.LeafCert, file: Path) -> Path:
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    pkcs8 = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    return file


@pytest.mark.slow
def test_server_accepts_only_clients_with_a_trusted_certificate(tmp_path: Path) -> None:
    authority, other_authority = trustme.CA(), trustme.CA()
    trust_store = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trust_store))
    key_store = write_key_store(authority.issue_cert(LOOPBACK), tmp_path / "server key.pem")
    settings = ServerSettings(tls=ServerTls(key_store, trust_store, plain_port=True))
    ensemble = EmbeddedEnsemble(tmp_path / "zk", size=1, settings=settings)
    ensemble.start()
    try:
        ensemble.wait_ready(60)
        port = ensemble.servers[0].client_port

        anonymous = ssl.create_default_context(cafile=str(trust_store))
        member = ssl.create_default_context(cafile=str(trust_store))
        authority.issue_cert("member").configure_cert(member)
        outsider = ssl.create_default_context(cafile=str(trust_store))
        other_authority.issue_cert("outsider").configure_cert(outsider)

        assert send_four_letter_word(LOOPBACK, port, b"ruok", deadline=time.monotonic() + 10, context=member) == "imok"
        assert read_health("1", LOOPBACK, port, timeout_s=10, context=member).mode == "standalone"
        for context in (anonymous, outsider):
            health = read_health("1", LOOPBACK, port, timeout_s=10, context=context)
            assert health.mode == "unreachable"
            assert "TLS failed" in health.problems[0]
        assert f"127.0.0.1:{port}" == ensemble.connect_string

        member_key = write_key_store(authority.issue_cert("member"), tmp_path / "member key.pem")
        tls = Tls(trust_store, certificate=member_key)
        members_settings = ConnectionSettings(((LOOPBACK, port),), tls=tls)
        assert read_directly(members_settings, lambda reader: reader.exists("/")) is not None
    finally:
        ensemble.stop()


def test_key_that_is_not_pkcs8_is_refused_before_the_start(tmp_path: Path) -> None:
    authority = trustme.CA()
    trust_store, key_store = tmp_path / "authority.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(trust_store))
    # trustme writes keys in PKCS #1, not PKCS #8.
    authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(str(key_store))
    settings = ServerSettings(tls=ServerTls(key_store, trust_store))
    server = ZooKeeperServer(1, tmp_path / "zk", {1: Ports.pick()}, settings)
    with pytest.raises(Refused, match="has no BEGIN PRIVATE KEY: convert it with: openssl pkcs8"):
        server.start()
    assert not server.running
