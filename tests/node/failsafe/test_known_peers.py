"""Addresses of the other nodes, as an agent keeps them."""

import asyncio
from pathlib import Path
from typing import cast

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import NodeId
from holdfast.node.failsafe.known_peers import REFRESH_S, UNREGISTERED_S_MAX, KnownPeers, PeersFile
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Stat, Znode
from tests.node.failsafe.test_promises import Clock

PATHS = Paths("c")
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")


class NodesClient:
    """Client of a ZooKeeper that holds only the registrations of nodes."""

    def __init__(self, addresses: dict[NodeId, str]) -> None:
        self.addresses = addresses
        self.reads = 0

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        assert path == PATHS.nodes
        return list(self.addresses)

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        self.reads += 1
        address = next(address for node, address in self.addresses.items() if PATHS.node(node) == path)
        data = encode(NodeRecord(slots=1, address=address, version="1", newest_schema=SCHEMA)) if address else b"noise"
        return Znode(data, cast(Stat, None))


def open_peers(file: PeersFile, clock: Clock) -> KnownPeers:
    return KnownPeers(PATHS, N1, clock, saved=file.read(), save=file.write)


def refresh(peers: KnownPeers, client: NodesClient) -> None:
    asyncio.run(peers.refresh(cast(Client, client)))


def test_peers_survive_a_restart_without_zookeeper(tmp_path: Path) -> None:
    file = PeersFile(tmp_path / "peers.json")
    refresh(open_peers(file, Clock()), NodesClient({N1: "http://a", N2: "http://b", N3: ""}))
    assert open_peers(file, Clock()).addresses == {N2: "http://b", N3: ""}
    assert (tmp_path / "peers.json").stat().st_mode & 0o777 == 0o600


def test_damaged_file_means_no_peers(tmp_path: Path) -> None:
    (tmp_path / "peers.json").write_text("[]")
    assert PeersFile(tmp_path / "peers.json").read() == {}


def test_addresses_are_read_again_only_when_they_may_have_changed(tmp_path: Path) -> None:
    clock, client = Clock(), NodesClient({N1: "http://a", N2: "http://b"})
    peers = open_peers(PeersFile(tmp_path / "peers.json"), clock)
    for _ in range(5):
        clock.now += 1
        refresh(peers, client)
    assert client.reads == 1
    client.addresses[N3] = "http://c"
    refresh(peers, client)
    assert peers.addresses == {N2: "http://b", N3: "http://c"}
    client.addresses[N3] = "http://d"
    peers.mark_outdated()
    clock.now += 3
    refresh(peers, client)
    assert peers.addresses[N3] == "http://d"


def test_node_is_asked_for_some_time_after_its_registration_ended(tmp_path: Path) -> None:
    clock, client = Clock(), NodesClient({N1: "http://a", N2: "http://b", N3: "http://c"})
    peers = open_peers(PeersFile(tmp_path / "peers.json"), clock)
    refresh(peers, client)
    del client.addresses[N2]
    refresh(peers, client)
    clock.now += 10 * UNREGISTERED_S_MAX  # an outage of ZooKeeper
    refresh(peers, client)
    assert N2 in peers.addresses, "time without ZooKeeper does not count"
    for _ in range(int(UNREGISTERED_S_MAX / REFRESH_S) + 1):
        clock.now += REFRESH_S
        refresh(peers, client)
    assert peers.addresses == {N3: "http://c"}
