"""TLS and passwords, against a real server that asks every client for a certificate, through the product's own code."""

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
from holdfast.zk.embedded import Ensemble, ServerTls, Settings
from holdfast.zk.embedded.ports import LOOPBACK
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.session.client import Committed, Create, Delete, NoAuth, Rejected, SetData, State
from holdfast.zk.session.connection_settings import Digest, Tls
from holdfast.zk.session.connection_settings import Ensemble as Address
from tests.harness.cluster.command import HOLDFAST
from tests.harness.cluster.nodes import Node, configuration, node
from tests.harness.waiting import eventually, soon
from tests.zk.embedded.test_tls import write_key_store

with warnings.catch_warnings():
    # The library warns about its own old algorithms as soon as it is imported.
    warnings.simplefilter("ignore")
    from cryptography.hazmat.primitives import serialization

pytestmark = pytest.mark.real

T_S = 10.0
USER, PASSWORD, KEY_PASSWORD = "ann", "digest-hunter2", "key-hunter2"
ANN = Digest(USER, PASSWORD)


@dataclass(frozen=True)
class Files:
    """What the test's authority has issued: to a member, whose key is locked, and to nobody else."""

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
        return Tls(**{"ca": self.ca, "certificate": self.certificate, "key": self.key, "key_password": KEY_PASSWORD} | options)


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
    # It names the address and not `localhost`, which leads to the same server.
    write_key_store(authority.issue_cert(LOOPBACK), files.server)
    member = authority.issue_cert("member")
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in member.cert_chain_pems))
    write_locked_key(member, files.key)
    write_key_store(other.issue_cert("stranger"), files.stranger)
    return files


@pytest.fixture(scope="module")
def secure(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One server for the module. Its plain port is for witnesses; nothing of the product connects to it."""
    tls = ServerTls(files.server, files.ca, plain_port=True)
    ensemble = Ensemble(tmp_path_factory.mktemp("secure"), size=1, settings=Settings(tick_ms=500, tls=tls))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture(scope="module")
def operator(secure: Ensemble) -> Iterator[KazooClient]:
    """An independent look at the same server, with Ann's rights."""
    client = KazooClient(f"{LOOPBACK}:{secure.servers[0].members[1].client}")
    client.start(20)
    client.add_auth("digest", f"{USER}:{PASSWORD}")
    yield client
    client.stop()
    client.close()


def everything(operator: KazooClient, path: str) -> list[str]:
    """Every path from here down. What goes while we look is not there."""
    try:
        children = operator.get_children(path)
    except NoNodeError:
        return []
    return [path, *(below for child in children for below in everything(operator, f"{path}/{child}"))]


Open = Callable[..., NetworkClient]


def run(secure: Ensemble, test: Callable[[Open], Coroutine[Any, Any, None]]) -> None:
    """The test gets a way to open clients, and all of them are closed at the end."""

    async def with_clients() -> None:
        clients: list[NetworkClient] = []

        def open_client(
            tls: Tls | None, digest: Digest | None = None, *, host: str = LOOPBACK, wake: Callable[[], None] = lambda: None
        ) -> NetworkClient:
            hosts = ((host, secure.servers[0].client_port),)
            clients.append(NetworkClient(Address(hosts, session_timeout_s=T_S, digest=digest, tls=tls), wake))
            return clients[-1]

        try:
            await test(open_client)
        finally:
            for client in clients:
                await client.close()

    asyncio.run(with_clients())


async def connected(client: NetworkClient) -> NetworkClient:
    await soon(lambda: client.state is State.CONNECTED, 20, "connected")
    return client


def test_a_client_with_its_certificate_and_password_works_as_over_a_plain_connection(
    secure: Ensemble, files: Files, root: str
) -> None:
    async def test(open_client: Open) -> None:
        woken = asyncio.Event()
        client = await connected(open_client(files.member(), ANN, wake=woken.set))
        assert client.timeout_s == T_S
        # More than one TLS record in one answer, and many answers at once.
        assert isinstance(await client.commit([Create(root, b"x" * 500_000), Create(f"{root}/e", ephemeral=True)]), Committed)
        answers = await asyncio.gather(*(client.get(root) for _ in range(5)), *(client.get(f"{root}/e") for _ in range(200)))
        assert [len(answer.data) for answer in answers] == [500_000] * 5 + [0] * 200
        await client.get(f"{root}/e", watch=True)
        woken.clear()
        other = await connected(open_client(files.member(), ANN))
        assert isinstance(await other.commit([SetData(f"{root}/e", b"changed", 0)]), Committed)
        async with asyncio.timeout(20):
            await woken.wait()
        assert (await client.get(f"{root}/e")).data == b"changed"

    run(secure, test)


CUT_OFF = r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_\w+)|reset by peer|connection broken|EOF"
"""How a client learns that the server does not want it: by an alert, unless the end of the connection comes first."""

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
def test_a_connection_that_must_not_be_is_never_made(
    case: str, secure: Ensemble, files: Files, operator: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused again and again, for the reason that is meant; and while others are served."""
    make_tls, host, because = REFUSALS[case]
    caplog.set_level(logging.WARNING, logger="holdfast.zk.kazoo")

    def refusals() -> int:
        return sum(re.search(because, record.getMessage()) is not None for record in caplog.records)

    async def test(open_client: Open) -> None:
        states: list[State] = []
        client = open_client(make_tls(files), ANN, host=host, wake=lambda: states.append(client.state))
        await soon(lambda: refusals() >= 3, 30, "three handshakes were refused")
        assert client.state is State.CONNECTING
        assert State.CONNECTED not in states
        assert client.session is None
        with pytest.raises(Unavailable) as unavailable:
            await client.get("/")
        assert "hunter" not in str(unavailable.value) + caplog.text

    run(secure, test)
    assert operator.exists("/")


def test_whoever_does_not_check_the_host_name_connects_all_the_same(secure: Ensemble, files: Files) -> None:
    async def test(open_client: Open) -> None:
        await connected(open_client(files.member(check_hostname=False), host="localhost"))

    run(secure, test)


def test_not_checking_the_host_name_is_not_trusting_every_authority(
    secure: Ensemble, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="holdfast.zk.kazoo")

    async def test(open_client: Open) -> None:
        client = open_client(files.member(ca=files.other_ca, check_hostname=False), host="localhost")
        await soon(lambda: "unable to get local issuer" in caplog.text, 30, "a handshake was refused")
        assert client.state is State.CONNECTING

    run(secure, test)


@pytest.mark.parametrize("digest", [None, Digest(USER, "wrong"), Digest("bob", PASSWORD)], ids=["nobody", "wrong", "bob"])
def test_a_certificate_alone_neither_reads_nor_writes_what_belongs_to_a_user(
    secure: Ensemble, files: Files, root: str, digest: Digest | None
) -> None:
    async def test(open_client: Open) -> None:
        owner = await connected(open_client(files.member(), ANN))
        assert isinstance(await owner.commit([Create(root, b"mine"), Create(f"{root}/child")]), Committed)
        other = await connected(open_client(files.member(), digest))
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


def test_a_locked_key_with_the_wrong_password_is_refused_and_neither_password_is_told(files: Files) -> None:
    with pytest.raises(Refused, match="cannot be used") as refused:
        files.member(key_password="guess-hunter3").context()
    assert "hunter" not in str(refused.value)


ASK = """
import sys
from pathlib import Path
from holdfast.zk.session.connection_settings import Tls
Tls(*map(Path, sys.argv[1:])).context()
"""


def test_a_locked_key_without_a_password_is_refused_and_no_daemon_waits_for_somebody_to_type(files: Files) -> None:
    command = [sys.executable, "-c", ASK, str(files.ca), str(files.certificate), str(files.key)]
    # A session of its own has no terminal; its stdin stays open, as a service's may.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as asking:
        assert asking.stderr is not None
        said = b""
        try:
            while b"pass phrase" not in said and (more := os.read(asking.stderr.fileno(), 4096)):
                said += more
        finally:
            asking.kill()
    assert b"Refused" in said
    assert b"pass phrase" not in said


# A whole node


def settings(files: Files, **zookeeper: Any) -> dict[str, dict[str, Any]]:
    return {
        "zookeeper": {
            "session_timeout_s": T_S,
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
class Cluster:
    node: Node
    connect: str
    prefix: str

    @property
    def root(self) -> str:
        return f"{self.prefix}/holdfast/blue"

    def leading(self) -> Node:
        eventually(self.node.leading, 30, "it leads")
        return self.node

    def session(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads((self.node.directory / "session.json").read_text())
        return fields


@pytest.fixture(scope="module")
def cluster(secure: Ensemble, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node for the module, under a path of its own. A test that kills its agent leaves a new one leading."""
    prefix = f"/p{secrets.token_hex(4)}"
    connect = f"{secure.connect}{prefix}"
    with node(tmp_path_factory.mktemp("node"), connect, cluster="blue", settings=settings(files)) as member:
        yield Cluster(member, connect, prefix)


def test_everything_that_a_node_made_belongs_to_its_user_alone(cluster: Cluster, operator: KazooClient) -> None:
    cluster.leading()
    paths = everything(operator, cluster.prefix)
    assert {f"{cluster.root}/epoch", f"{cluster.root}/beat", f"{cluster.root}/nodes/n1"} <= set(paths)
    assert any(path.startswith(f"{cluster.root}/election/c-") for path in paths)
    own = make_digest_acl(USER, PASSWORD, all=True)
    for path in paths:
        # Into the folders above a cluster, others may look, and put theirs beside it.
        beside = [] if path.startswith(cluster.root) else [make_acl("world", "anyone", read=True, create=True)]
        assert operator.get_acls(path)[0] == [own, *beside], path


def kill_agent(cluster: Cluster) -> None:
    pid = cluster.leading().agent_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def closings(guarded: Node, session_id: int) -> list[dict[str, Any]]:
    return [event for event in guarded.events("session closed") if event["session"] == hex(session_id)]


def held_by(operator: KazooClient, cluster: Cluster, session_id: int) -> list[str]:
    held = []
    for path in everything(operator, cluster.root):
        stat = operator.exists(path)
        if stat is not None and stat.ephemeralOwner == session_id:
            held.append(path)
    return held


def test_the_session_of_a_killed_agent_is_closed_over_tls_long_before_it_would_expire(
    cluster: Cluster, operator: KazooClient
) -> None:
    guarded = cluster.leading()
    dead = cluster.session()["session_id"]
    assert len(held_by(operator, cluster, dead)) == 2, "its entry and its place in the election"
    kill_agent(cluster)
    eventually(lambda: not held_by(operator, cluster, dead), T_S / 2, "what the dead agent held is gone")
    eventually(lambda: closings(guarded, dead), 10, "its guard says so")
    assert not guarded.events("session left to expire")
    cluster.leading()
    assert cluster.session()["session_id"] != dead


def ask(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`holdfast` as somebody runs it in this directory, with nothing in the environment that names a cluster."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [*HOLDFAST, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def said_by(answer: "subprocess.CompletedProcess[str]") -> str:
    return answer.stdout + answer.stderr


def test_the_cluster_is_shown_over_tls_by_the_settings_in_the_working_directory(cluster: Cluster, secure: Ensemble) -> None:
    cluster.leading()
    answer = ask(cluster.node.directory, "cluster", "--json")
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout)
    assert seen["leader"] == "n1"
    assert [entry["id"] for entry in seen["nodes"]] == ["n1"]
    assert [(server["id"], server["mode"], server["problems"]) for server in seen["zookeeper"]] == [
        (secure.connect, "standalone", [])
    ]


def test_the_password_may_stand_in_a_file_of_its_own(cluster: Cluster, files: Files, tmp_path: Path) -> None:
    cluster.leading()
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    in_a_file = settings(files, password="", password_file=str(tmp_path / "password"))
    configuration(tmp_path, cluster.connect, cluster="blue", node="n1", settings=in_a_file)
    assert '"leader": "n1"' in ask(tmp_path, "cluster", "--json").stdout


WRONG = {
    "a wrong password": ({"password": "guess-hunter3"}, "wrong or missing user or password"),
    "a wrong key password": ({"tls_key_password": "guess-hunter3"}, "cannot be used"),
    "no certificate": ({"tls_certificate": "", "tls_key": "", "tls_key_password": ""}, "does not answer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_client_that_is_not_let_in_says_so_in_one_sentence_without_a_secret(
    cluster: Cluster, files: Files, tmp_path: Path, case: str
) -> None:
    change, says = WRONG[case]
    cluster.leading()
    configuration(tmp_path, cluster.connect, cluster="blue", node="n1", settings=settings(files, **change))
    answer = ask(tmp_path, "cluster")
    assert answer.returncode == 1
    assert answer.stderr.startswith("holdfast: ")
    assert len(answer.stderr.splitlines()) == 1
    assert says in answer.stderr
    assert "hunter" not in said_by(answer)


def test_no_secret_is_told_in_any_log_file_or_answer(cluster: Cluster, secure: Ensemble) -> None:
    guarded = cluster.leading()
    sessions = [cluster.session()]
    kill_agent(cluster)
    eventually(lambda: closings(guarded, sessions[0]["session_id"]), 20, "the guard has spoken")
    cluster.leading()
    sessions.append(cluster.session())
    assert sessions[0]["password"] != sessions[1]["password"]
    told = {
        "cluster": said_by(ask(guarded.directory, "cluster")),
        "cluster --json": said_by(ask(guarded.directory, "cluster", "--json")),
        "command lines": "".join(
            Path(f"/proc/{pid}/cmdline").read_text() for pid in (guarded.process.pid, guarded.agent_pid())
        ),
        "ZooKeeper's log": secure.servers[0].log.read_text(),
    }
    api = json.loads((guarded.directory / "agent.json").read_text())["api"]
    for route in ("/v1/node", "/healthz", "/nowhere"):
        told[route] = fetched(f"{api}{route}")
    private = {"session.json", "holdfast.toml"}
    for file in guarded.directory.iterdir():
        if file.name not in private:
            told[file.name] = file.read_bytes().decode(errors="replace")
    assert {"log", "memory.json", "guard.json", "agent.json", "/v1/node"} <= set(told)
    assert "session closed" in told["log"]
    for secret in (PASSWORD, KEY_PASSWORD, *(forms for session in sessions for forms in written_forms(session["password"]))):
        assert [where for where, text in told.items() if secret in text] == [], secret
    assert (guarded.directory / "session.json").stat().st_mode & 0o777 == 0o600


def fetched(url: str) -> str:
    try:
        with urllib.request.urlopen(url) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def written_forms(password: str) -> tuple[str, ...]:
    """A session's password as it could be printed: in hexadecimal, as Python shows bytes, and that in JSON."""
    shown = repr(bytes.fromhex(password))[2:-1]
    return password, shown, json.dumps(shown)[1:-1]
