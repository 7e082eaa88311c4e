"""Properties of names, paths and connect strings."""

import ipaddress
import re
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.model.identifiers import NodeId, is_valid_name
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.connection_settings import ConnectionSettings, parse_connect_string

PLAIN = "abcxyzABCXYZ0189"
near_valid = st.text(st.sampled_from(PLAIN + "._-/ \\\n\0%:éß٣"), max_size=70)


@settings(max_examples=250, deadline=None)
@given(text=st.text(max_size=80) | near_valid)
def test_valid_name_has_only_safe_characters(text: str) -> None:
    if not is_valid_name(text):
        return
    assert 1 <= len(text) <= 64
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("/\\ \t\r\n\0%:;'\"")
    assert text not in (".", "..")
    assert text[0].isalnum()
    assert text[-1].isalnum()
    assert quote(text, safe="") == text, "needs no quoting in a URL"


@settings(max_examples=100, deadline=None)
@given(
    text=st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", fullmatch=True),
    separator=st.sampled_from("/\\ \n\0:é"),
)
def test_name_with_a_separator_is_invalid(text: str, separator: str) -> None:
    assert is_valid_name(text)
    for index in (0, len(text) // 2, len(text)):
        assert not is_valid_name(text[:index] + separator + text[index:])


names = st.text(st.sampled_from(PLAIN), min_size=1, max_size=8)
prefixes = st.lists(names, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))


@settings(max_examples=100, deadline=None)
@given(cluster=names, other=names, node=names, prefix=prefixes)
def test_every_path_is_inside_its_cluster(cluster: str, other: str, node: str, prefix: str) -> None:
    paths = Paths(cluster, prefix=prefix)
    own = [paths.epoch, paths.beat, paths.election, paths.nodes, paths.node(NodeId(node)), paths.contender(node)]
    assert all(path.startswith(f"{prefix}/holdfast/{cluster}/") for path in own)
    assert len(set(own)) == len(own)
    if other != cluster:
        assert not any(path.startswith(f"{Paths(other, prefix=prefix).root}/") for path in own)


@settings(max_examples=100, deadline=None)
@given(cluster=names, prefix=prefixes)
def test_required_znodes_never_list_a_child_before_its_parent(cluster: str, prefix: str) -> None:
    created = {""}
    for path in Paths(cluster, prefix=prefix).required_znodes:
        assert path.rpartition("/")[0] in created
        created.add(path)


words = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{1,5}){0,2}", fullmatch=True)
addresses = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)
hosts = st.lists(st.tuples(words | addresses, st.integers(min_value=1, max_value=65535)), min_size=1, max_size=5).map(tuple)


def format_connect_string(hosts: tuple[tuple[str, int], ...], chroot: str) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts) + chroot


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(hosts=hosts, chroot=prefixes)
def test_connect_string_round_trip_keeps_hosts_and_chroot(hosts: tuple[tuple[str, int], ...], chroot: str) -> None:
    assert parse_connect_string(format_connect_string(hosts, chroot)) == (hosts, chroot)
    assert parse_connect_string(ConnectionSettings(hosts, chroot).connect_string) == (hosts, chroot)


@settings(max_examples=250, deadline=None)
@given(text=st.text(max_size=40) | st.text(st.sampled_from("ab1:,/[] ²"), max_size=20))
def test_parsing_any_text_gives_valid_hosts_or_raises_refused(text: str) -> None:
    try:
        hosts, chroot = parse_connect_string(text)
    except Refused:
        return
    assert hosts
    assert all(host and 0 < port < 65536 for host, port in hosts)
    assert chroot == "" or re.fullmatch(r"(/[^/]+)+", chroot, re.DOTALL)


@settings(max_examples=100, deadline=None)
@given(address=st.ip_addresses(v=6))
def test_ipv6_host_in_brackets_is_parsed_completely(address: ipaddress.IPv6Address) -> None:
    assert parse_connect_string(f"[{address}]") == (((str(address), 2181),), "")
