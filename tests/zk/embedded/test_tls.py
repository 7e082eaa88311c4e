"""A real server that speaks TLS and asks every client for a certificate."""

import ssl
import time
import warnings
from pathlib import Path

import pytest
import trustme

from holdfast.errors import Refused
from holdfast.zk.embedded import Ensemble, Ports, Server, ServerTls, Settings
from holdfast.zk.embedded.ports import LOOPBACK
from holdfast.zk.session.server_health import ask, read_health

with warnings.catch_warnings():
    # The library warns about its own old algorithms as soon as it is imported.
    warnings.simplefilter("ignore")
    from cryptography.hazmat.primitives import serialization


def write_key_store(certificate: trustme.LeafCert, file: Path) -> Path:
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    form, open_form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pkcs8 = key.private_bytes(serialization.Encoding.PEM, form, open_form)
    file.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    return file


def test_only_clients_with_a_certificate_of_the_authority_are_served(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    trust_store = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trust_store))
    key_store = write_key_store(authority.issue_cert(LOOPBACK), tmp_path / "server key.pem")
    settings = Settings(tls=ServerTls(key_store, trust_store, plain_port=True))
    ensemble = Ensemble(tmp_path / "zk", size=1, settings=settings)
    ensemble.start()
    try:
        ensemble.wait_ready(60)
        port = ensemble.servers[0].client_port

        nobody = ssl.create_default_context(cafile=str(trust_store))
        member = ssl.create_default_context(cafile=str(trust_store))
        authority.issue_cert("member").configure_cert(member)
        foreigner = ssl.create_default_context(cafile=str(trust_store))
        stranger.issue_cert("foreigner").configure_cert(foreigner)

        assert ask(LOOPBACK, port, b"ruok", deadline=time.monotonic() + 10, context=member) == "imok"
        assert read_health("1", LOOPBACK, port, timeout_s=10, context=member).mode == "standalone"
        for context in (nobody, foreigner):
            health = read_health("1", LOOPBACK, port, timeout_s=10, context=context)
            assert health.mode == "unreachable"
            assert "TLS failed" in health.problems[0]
        assert f"127.0.0.1:{port}" == ensemble.connect
    finally:
        ensemble.stop()


def test_a_key_in_a_form_that_zookeeper_cannot_read_is_refused_before_it_starts(tmp_path: Path) -> None:
    authority = trustme.CA()
    trust_store, key_store = tmp_path / "authority.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(trust_store))
    # trustme writes the older form of key.
    authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(str(key_store))
    settings = Settings(tls=ServerTls(key_store, trust_store))
    server = Server(1, tmp_path / "zk", {1: Ports.pick()}, settings)
    with pytest.raises(Refused, match="has no BEGIN PRIVATE KEY: convert it with: openssl pkcs8"):
        server.start()
    assert not server.running
