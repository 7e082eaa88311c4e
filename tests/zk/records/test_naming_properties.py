"""Whatever people call things: no name leads out of its place, and no address is misread."""

import ipaddress
import re
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.model.identifiers import NodeId, is_name
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.connection_settings import Ensemble, parse_connect

PLAIN = "abcxyzABCXYZ0189"
likely = st.text(st.sampled_from(PLAIN + "._-/ \\\n\0%:éß٣"), max_size=70)


@settings(max_examples=250, deadline=None)
@given(text=st.text(max_size=80) | likely)
def test_an_admitted_name_is_never_odd(text: str) -> None:
    if not is_name(text):
        return
    assert 1 <= len(text) <= 64
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("/\\ \t\r\n\0%:;'\"")
    assert text not in (".", "..")
    assert text[0].isalnum()
    assert text[-1].isalnum()
    assert quote(text, safe="") == text, "the same in a URL"


@settings(max_examples=100, deadline=None)
@given(
    text=st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", fullmatch=True), spoiler=st.sampled_from("/\\ \n\0:é")
)
def test_a_name_never_stays_one_with_a_separator_in_it(text: str, spoiler: str) -> None:
    assert is_name(text)
    for place in (0, len(text) // 2, len(text)):
        assert not is_name(text[:place] + spoiler + text[place:])


names = st.text(st.sampled_from(PLAIN), min_size=1, max_size=8)
prefixes = st.lists(names, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))


@settings(max_examples=100, deadline=None)
@given(cluster=names, other=names, node=names, prefix=prefixes)
def test_a_path_never_leaves_its_cluster(cluster: str, other: str, node: str, prefix: str) -> None:
    paths = Paths(cluster, prefix=prefix)
    own = [paths.epoch, paths.beat, paths.election, paths.nodes, paths.node(NodeId(node)), paths.contender(node)]
    assert all(path.startswith(f"{prefix}/holdfast/{cluster}/") for path in own)
    assert len(set(own)) == len(own)
    if other != cluster:
        assert not any(path.startswith(f"{Paths(other, prefix=prefix).root}/") for path in own)


@settings(max_examples=100, deadline=None)
@given(cluster=names, prefix=prefixes)
def test_the_skeleton_never_names_a_child_before_its_parent(cluster: str, prefix: str) -> None:
    made = {""}
    for path in Paths(cluster, prefix=prefix).skeleton:
        assert path.rpartition("/")[0] in made
        made.add(path)


words = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{1,5}){0,2}", fullmatch=True)
addresses = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)
hosts = st.lists(st.tuples(words | addresses, st.integers(min_value=1, max_value=65535)), min_size=1, max_size=5).map(tuple)


def written(hosts: tuple[tuple[str, int], ...], chroot: str) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts) + chroot


@settings(max_examples=150, deadline=None)
@given(hosts=hosts, chroot=prefixes)
def test_an_address_is_never_changed_by_writing_and_reading_it(hosts: tuple[tuple[str, int], ...], chroot: str) -> None:
    assert parse_connect(written(hosts, chroot)) == (hosts, chroot)
    assert parse_connect(Ensemble(hosts, chroot).connect) == (hosts, chroot)


@settings(max_examples=250, deadline=None)
@given(text=st.text(max_size=40) | st.text(st.sampled_from("ab1:,/[] ²"), max_size=20))
def test_what_is_no_address_never_causes_anything_but_a_refusal(text: str) -> None:
    try:
        found, chroot = parse_connect(text)
    except Refused:
        return
    assert found
    assert all(host and 0 < port < 65536 for host, port in found)
    assert chroot == "" or re.fullmatch(r"(/[^/]+)+", chroot, re.DOTALL)


@settings(max_examples=100, deadline=None)
@given(address=st.ip_addresses(v=6))
def test_an_ipv6_host_in_brackets_is_never_cut(address: ipaddress.IPv6Address) -> None:
    assert parse_connect(f"[{address}]") == (((str(address), 2181),), "")
