"""TLS and passwords, against a real server that requires client certificates."""

import asyncio
import json
import logging
import os
import re
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_acl, make_digest_acl

from holdfast.errors import Refused, Unavailable
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ServerTls
from holdfast.zk.embedded.ports import LOOPBACK
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.session.client import Committed, ConnectionState, Create, Delete, NoAuth, Rejected, SetData
from holdfast.zk.session.connection_settings import ConnectionSettings as Address
from holdfast.zk.session.connection_settings import DigestCredentials, Tls
from tests.harness.cluster.command import HOLDFAST
from tests.harness.cluster.nodes import Node, start_node, write_config
from tests.harness.waiting import wait_until, wait_until_async
from tests.zk.embedded.test_tls import write_key_store

with warnings.catch_warnings():
    # The library warns about deprecated algorithms on import.
    warnings.simplefilter("ignore")
    from cryptography.hazmat.primitives import serialization

pytestmark = pytest.mark.real

SESSION_TIMEOUT_S = 10.0
USER, PASSWORD, KEY_PASSWORD = "ann", "digest-hunter2", "key-hunter2"
CREDENTIALS = DigestCredentials(USER, PASSWORD)


@dataclass(frozen=True)
class Files:
    """Certificates: of the server, of a member with an encrypted key, and of a stranger from another authority."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def other_ca(self) -> Path:
        return self.directory / "other-ca.pem"

    @property
    def server(self) -> Path:
        return self.directory / "server.pem"

    @property
    def certificate(self) -> Path:
        return self.directory / "member.pem"

    @property
    def key(self) -> Path:
        return self.directory / "member.key"

    @property
    def stranger(self) -> Path:
        return self.directory / "stranger.pem"

    def member(self, **options: Any) -> Tls:
        fields: dict[str, Any] = {
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
            "key_password": KEY_PASSWORD,
        }
        return Tls(**fields | options)


def write_locked_key(certificate: trustme.LeafCert, file: Path) -> None:
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    lock = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = Files(tmp_path_factory.mktemp("certificates"))
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(files.ca))
    other.cert_pem.write_to_path(str(files.other_ca))
    # The certificate names the address but not `localhost`, which is the same server.
    write_key_store(authority.issue_cert(LOOPBACK), files.server)
    member = authority.issue_cert("member")
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in member.cert_chain_pems))
    write_locked_key(member, files.key)
    write_key_store(other.issue_cert("stranger"), files.stranger)
    return files


@pytest.fixture(scope="module")
def secure(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Server with TLS. Only the `operator` fixture uses its plain port."""
    tls = ServerTls(files.server, files.ca, plain_port=True)
    ensemble = EmbeddedEnsemble(tmp_path_factory.mktemp("secure"), size=1, settings=ServerSettings(tick_ms=500, tls=tls))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture(scope="module")
def operator(secure: EmbeddedEnsemble) -> Iterator[KazooClient]:
    """Independent client of the same server, with Ann's credentials."""
    client = KazooClient(f"{LOOPBACK}:{secure.servers[0].members[1].client}")
    client.start(20)
    client.add_auth("digest", f"{USER}:{PASSWORD}")
    yield client
    client.stop()
    client.close()


def list_znodes(operator: KazooClient, path: str) -> list[str]:
    """Return all paths below `path`, ignoring znodes that are deleted meanwhile."""
    try:
        children = operator.get_children(path)
    except NoNodeError:
        return []
    return [path, *(below for child in children for below in list_znodes(operator, f"{path}/{child}"))]


OpenClient = Callable[..., NetworkClient]


def run(secure: EmbeddedEnsemble, test: Callable[[OpenClient], Coroutine[Any, Any, None]]) -> None:
    """Run the test with a function that opens clients, and close all of them at the end."""

    async def with_clients() -> None:
        clients: list[NetworkClient] = []

        def open_client(
            tls: Tls | None,
            digest: DigestCredentials | None = None,
            *,
            host: str = LOOPBACK,
            wake: Callable[[], None] = lambda: None,
        ) -> NetworkClient:
            hosts = ((host, secure.servers[0].client_port),)
            clients.append(NetworkClient(Address(hosts, session_timeout_s=SESSION_TIMEOUT_S, digest=digest, tls=tls), wake))
            return clients[-1]

        try:
            await test(open_client)
        finally:
            for client in clients:
                await client.close()

    asyncio.run(with_clients())


async def wait_until_connected(client: NetworkClient) -> NetworkClient:
    await wait_until_async(lambda: client.state is ConnectionState.CONNECTED, 20, "connected")
    return client


def test_client_with_certificate_and_password_works_over_tls(secure: EmbeddedEnsemble, files: Files, root: str) -> None:
    async def test(open_client: OpenClient) -> None:
        woken = asyncio.Event()
        client = await wait_until_connected(open_client(files.member(), CREDENTIALS, wake=woken.set))
        assert client.timeout_s == SESSION_TIMEOUT_S
        # Covers answers of several TLS records, and many answers at once.
        assert isinstance(await client.commit([Create(root, b"x" * 500_000), Create(f"{root}/e", ephemeral=True)]), Committed)
        answers = await asyncio.gather(*(client.get(root) for _ in range(5)), *(client.get(f"{root}/e") for _ in range(200)))
        assert [len(answer.data) for answer in answers] == [500_000] * 5 + [0] * 200
        await client.get(f"{root}/e", watch=True)
        woken.clear()
        other = await wait_until_connected(open_client(files.member(), CREDENTIALS))
        assert isinstance(await other.commit([SetData(f"{root}/e", b"changed", 0)]), Committed)
        async with asyncio.timeout(20):
            await woken.wait()
        assert (await client.get(f"{root}/e")).data == b"changed"

    run(secure, test)


CUT_OFF = r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_\w+)|reset by peer|connection broken|EOF"
"""Errors of a client that the server rejects: a TLS alert, or a closed connection if that arrives first."""

REFUSALS: dict[str, tuple[Callable[[Files], Tls | None], str, str]] = {
    "a server whose certificate names another host": (lambda files: files.member(), "localhost", "Hostname mismatch"),
    "a server of an unknown authority": (
        lambda files: files.member(ca=files.other_ca),
        LOOPBACK,
        "unable to get local issuer certificate",
    ),
    "a client without a certificate": (lambda files: Tls(files.ca), LOOPBACK, CUT_OFF),
    "a client of an unknown authority": (lambda files: Tls(files.ca, files.stranger), LOOPBACK, CUT_OFF),
    "a client without TLS": (lambda _: None, LOOPBACK, CUT_OFF),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_connection_without_valid_certificates_is_refused(
    case: str, secure: EmbeddedEnsemble, files: Files, operator: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Each retry fails for the expected reason, while other clients are served."""
    make_tls, host, because = REFUSALS[case]
    caplog.set_level(logging.WARNING, logger="holdfast.zk.kazoo")

    def refusals() -> int:
        return sum(re.search(because, record.getMessage()) is not None for record in caplog.records)

    async def test(open_client: OpenClient) -> None:
        states: list[ConnectionState] = []
        client: NetworkClient = open_client(make_tls(files), CREDENTIALS, host=host, wake=lambda: states.append(client.state))
        await wait_until_async(lambda: refusals() >= 3, 30, "three handshakes were refused")
        assert client.state is ConnectionState.CONNECTING
        assert ConnectionState.CONNECTED not in states
        assert client.session is None
        with pytest.raises(Unavailable) as unavailable:
            await client.get("/")
        assert "hunter" not in str(unavailable.value) + caplog.text

    run(secure, test)
    assert operator.exists("/")


def test_client_without_host_name_check_connects(secure: EmbeddedEnsemble, files: Files) -> None:
    async def test(open_client: OpenClient) -> None:
        await wait_until_connected(open_client(files.member(check_hostname=False), host="localhost"))

    run(secure, test)


def test_client_without_host_name_check_still_verifies_the_authority(
    secure: EmbeddedEnsemble, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="holdfast.zk.kazoo")

    async def test(open_client: OpenClient) -> None:
        client = open_client(files.member(ca=files.other_ca, check_hostname=False), host="localhost")
        await wait_until_async(lambda: "unable to get local issuer" in caplog.text, 30, "a handshake was refused")
        assert client.state is ConnectionState.CONNECTING

    run(secure, test)


@pytest.mark.parametrize(
    "digest",
    [None, DigestCredentials(USER, "wrong"), DigestCredentials("bob", PASSWORD)],
    ids=["no user", "wrong password", "another user"],
)
def test_certificate_without_the_password_gives_no_access_to_znodes(
    secure: EmbeddedEnsemble, files: Files, root: str, digest: DigestCredentials | None
) -> None:
    async def test(open_client: OpenClient) -> None:
        owner = await wait_until_connected(open_client(files.member(), CREDENTIALS))
        assert isinstance(await owner.commit([Create(root, b"mine"), Create(f"{root}/child")]), Committed)
        other = await wait_until_connected(open_client(files.member(), digest))
        for read in (other.get, other.children):
            with pytest.raises(NoAuth):
                await read(root)
        for write in (SetData(root, b"yours", 0), Create(f"{root}/more"), Delete(f"{root}/child", 0)):
            rejected = await other.commit([write])
            assert isinstance(rejected, Rejected), write
            assert isinstance(rejected.error, NoAuth), write
        assert (await owner.get(root)).data == b"mine"
        assert await owner.children(root) == ["child"]

    run(secure, test)


def test_wrong_key_password_is_refused_without_revealing_it(files: Files) -> None:
    with pytest.raises(Refused, match="cannot load the TLS files") as refused:
        files.member(key_password="guess-hunter3").context()
    assert "hunter" not in str(refused.value)


LOAD_KEY = """
import sys
from pathlib import Path
from holdfast.zk.session.connection_settings import Tls
Tls(*map(Path, sys.argv[1:])).context()
"""


def test_encrypted_key_without_a_password_is_refused_without_a_prompt(files: Files) -> None:
    command = [sys.executable, "-c", LOAD_KEY, str(files.ca), str(files.certificate), str(files.key)]
    # A new session has no terminal. Its stdin stays open, like that of a service.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        output = b""
        try:
            while b"pass phrase" not in output and (more := os.read(process.stderr.fileno(), 4096)):
                output += more
        finally:
            process.kill()
    assert b"Refused" in output
    assert b"pass phrase" not in output


# Complete node


def settings(files: Files, **zookeeper: Any) -> dict[str, dict[str, Any]]:
    return {
        "zookeeper": {
            "session_timeout_s": SESSION_TIMEOUT_S,
            "tick_s": 0.5,
            "sync_limit": 5,
            "user": USER,
            "password": PASSWORD,
            "tls_ca": str(files.ca),
            "tls_certificate": str(files.certificate),
            "tls_key": str(files.key),
            "tls_key_password": KEY_PASSWORD,
        }
        | zookeeper,
        "timing": {"margin_s": 2.5, "heartbeat_s": 0.3},
    }


@dataclass(frozen=True)
class SecureCluster:
    node: Node
    connect: str
    prefix: str

    @property
    def root(self) -> str:
        return f"{self.prefix}/holdfast/blue"

    def wait_until_leading(self) -> Node:
        wait_until(self.node.is_leading, 30, "the node leads")
        return self.node

    def session(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads((self.node.directory / "session.json").read_text())
        return fields


@pytest.fixture(scope="module")
def cluster(secure: EmbeddedEnsemble, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """Node under its own chroot. A test that kills the agent waits until a new agent leads."""
    prefix = f"/p{secrets.token_hex(4)}"
    connect = f"{secure.connect_string}{prefix}"
    with start_node(tmp_path_factory.mktemp("node"), connect, cluster="blue", settings=settings(files)) as member:
        yield SecureCluster(member, connect, prefix)


def test_znodes_of_a_node_belong_to_its_user_only(cluster: SecureCluster, operator: KazooClient) -> None:
    cluster.wait_until_leading()
    paths = list_znodes(operator, cluster.prefix)
    assert {f"{cluster.root}/epoch", f"{cluster.root}/beat", f"{cluster.root}/nodes/n1"} <= set(paths)
    assert any(path.startswith(f"{cluster.root}/election/c-") for path in paths)
    own = make_digest_acl(USER, PASSWORD, all=True)
    for path in paths:
        # Other users may read the parents of a cluster, and create their own clusters there.
        shared = [] if path.startswith(cluster.root) else [make_acl("world", "anyone", read=True, create=True)]
        assert operator.get_acls(path)[0] == [own, *shared], path


def kill_agent(cluster: SecureCluster) -> None:
    pid = cluster.wait_until_leading().agent_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def session_closed_events(node: Node, session_id: int) -> list[dict[str, Any]]:
    return [event for event in node.events("session closed") if event["session"] == hex(session_id)]


def ephemerals_of(operator: KazooClient, cluster: SecureCluster, session_id: int) -> list[str]:
    paths = []
    for path in list_znodes(operator, cluster.root):
        stat = operator.exists(path)
        if stat is not None and stat.ephemeralOwner == session_id:
            paths.append(path)
    return paths


def test_session_of_a_killed_agent_is_closed_over_tls_before_it_expires(cluster: SecureCluster, operator: KazooClient) -> None:
    node = cluster.wait_until_leading()
    dead = cluster.session()["session_id"]
    assert len(ephemerals_of(operator, cluster, dead)) == 2, "its registration and its contender"
    kill_agent(cluster)
    wait_until(
        lambda: not ephemerals_of(operator, cluster, dead),
        SESSION_TIMEOUT_S / 2,
        "the ephemeral znodes of the dead agent are deleted",
    )
    wait_until(lambda: session_closed_events(node, dead), 10, "the guard logs the closed session")
    assert not node.events("session left to expire")
    cluster.wait_until_leading()
    assert cluster.session()["session_id"] != dead


def run_in_directory(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `holdfast` in this directory, without HOLDFAST_ variables in the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [*HOLDFAST, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def output_of(answer: "subprocess.CompletedProcess[str]") -> str:
    return answer.stdout + answer.stderr


def test_cluster_command_uses_the_tls_settings_in_the_working_directory(
    cluster: SecureCluster, secure: EmbeddedEnsemble
) -> None:
    cluster.wait_until_leading()
    answer = run_in_directory(cluster.node.directory, "cluster", "--json")
    assert answer.returncode == 0, answer.stderr
    view = json.loads(answer.stdout)
    assert view["leader"] == "n1"
    assert [entry["id"] for entry in view["nodes"]] == ["n1"]
    assert [(server["id"], server["mode"], server["problems"]) for server in view["zookeeper"]] == [
        (secure.connect_string, "standalone", [])
    ]


def test_password_is_read_from_a_file(cluster: SecureCluster, files: Files, tmp_path: Path) -> None:
    cluster.wait_until_leading()
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    with_password_file = settings(files, password="", password_file=str(tmp_path / "password"))
    write_config(tmp_path, cluster.connect, cluster="blue", node="n1", settings=with_password_file)
    assert '"leader": "n1"' in run_in_directory(tmp_path, "cluster", "--json").stdout


WRONG_SETTINGS = {
    "a wrong password": ({"password": "guess-hunter3"}, "the user or password is wrong or missing"),
    "a wrong key password": ({"tls_key_password": "guess-hunter3"}, "cannot load the TLS files"),
    "no certificate": ({"tls_certificate": "", "tls_key": "", "tls_key_password": ""}, "does not answer"),
}


@pytest.mark.parametrize("case", WRONG_SETTINGS)
def test_rejected_client_reports_one_message_without_secrets(
    cluster: SecureCluster, files: Files, tmp_path: Path, case: str
) -> None:
    change, says = WRONG_SETTINGS[case]
    cluster.wait_until_leading()
    write_config(tmp_path, cluster.connect, cluster="blue", node="n1", settings=settings(files, **change))
    answer = run_in_directory(tmp_path, "cluster")
    assert answer.returncode == 1
    assert answer.stderr.startswith("holdfast: ")
    assert len(answer.stderr.splitlines()) == 1
    assert says in answer.stderr
    assert "hunter" not in output_of(answer)


def test_no_secret_appears_in_logs_files_or_answers(cluster: SecureCluster, secure: EmbeddedEnsemble) -> None:
    node = cluster.wait_until_leading()
    sessions = [cluster.session()]
    kill_agent(cluster)
    wait_until(lambda: session_closed_events(node, sessions[0]["session_id"]), 20, "the guard logs the closed session")
    cluster.wait_until_leading()
    sessions.append(cluster.session())
    assert sessions[0]["password"] != sessions[1]["password"]
    texts = {
        "cluster": output_of(run_in_directory(node.directory, "cluster")),
        "cluster --json": output_of(run_in_directory(node.directory, "cluster", "--json")),
        "command lines": "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in (node.process.pid, node.agent_pid())),
        "ZooKeeper's log": secure.servers[0].log.read_text(),
    }
    api = json.loads((node.directory / "agent.json").read_text())["api"]
    for route in ("/v1/node", "/healthz", "/nowhere"):
        texts[route] = fetch(f"{api}{route}")
    private = {"session.json", "holdfast.toml"}
    for file in node.directory.iterdir():
        if file.name not in private:
            texts[file.name] = file.read_bytes().decode(errors="replace")
    assert {"log", "memory.json", "guard.json", "agent.json", "/v1/node"} <= set(texts)
    assert "session closed" in texts["log"]
    for secret in (PASSWORD, KEY_PASSWORD, *(forms for session in sessions for forms in written_forms(session["password"]))):
        assert [where for where, text in texts.items() if secret in text] == [], secret
    assert (node.directory / "session.json").stat().st_mode & 0o777 == 0o600


def fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def written_forms(password: str) -> tuple[str, ...]:
    """Return the forms in which a session's password could be printed: hexadecimal, Python bytes, and JSON of these."""
    shown = repr(bytes.fromhex(password))[2:-1]
    return password, shown, json.dumps(shown)[1:-1]
