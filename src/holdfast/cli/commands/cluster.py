"""`holdfast cluster`: who leads, which nodes there are, and how ZooKeeper is."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.errors import Unavailable
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.cluster_view import ClusterView, observe
from holdfast.zk.records.job_reader import read_jobs, slots_used
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from holdfast.zk.session.server_health import ServerHealth, read_health

HEALTH_S = 2.0


@click.command()
@target_options
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def cluster(directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool) -> None:
    """Show who leads, which nodes there are, and how the ZooKeeper servers are."""
    target = find(directory, connect, cluster_name)
    # ZooKeeper's own state is worth seeing most when the cluster's cannot be read.
    failure: Unavailable | None = None
    view, used = None, Counter[NodeId]()
    try:
        view, used = read(target, lambda client: _look(client, target.paths))
    except Unavailable as error:
        failure = error
    healths = _healths(target)
    if as_json:
        click.echo(json.dumps(_as_json(view, used, healths), indent=2))
    else:
        _print(view, used, healths)
    for problem in view.problems if view is not None else ():
        click.echo(f"holdfast: {problem}", err=True)
    if failure is not None:
        raise failure


async def _look(client: Client, paths: Paths) -> tuple[ClusterView, Counter[NodeId]]:
    view = await observe(client, paths)
    return view, slots_used(await read_jobs(client, paths, ended=False))


def _healths(target: Target) -> list[ServerHealth]:
    tls = target.ensemble.tls
    context = tls.context() if tls is not None else None

    def ask(server: tuple[str, str, int]) -> ServerHealth:
        id, host, port = server
        return read_health(id, host, port, timeout_s=HEALTH_S, context=context)

    with ThreadPoolExecutor(max_workers=len(target.servers)) as pool:
        return list(pool.map(ask, target.servers))


def _as_json(view: ClusterView | None, used: Counter[NodeId], healths: list[ServerHealth]) -> dict[str, Any]:
    return {
        "leader": view.leader if view is not None else None,
        "epoch": view.epoch if view is not None else None,
        "nodes": [
            {"id": id, "slots": record.slots, "slots_used": used[id], "api": record.address}
            for id, record in (view.nodes if view is not None else ())
        ],
        "zookeeper": [
            {
                "id": health.id,
                "mode": health.mode,
                "latency_ms_max": health.latency_ms_max,
                "fsync_ms_max": health.fsync_ms_max,
                "problems": list(health.problems),
            }
            for health in healths
        ],
    }


def _print(view: ClusterView | None, used: Counter[NodeId], healths: list[ServerHealth]) -> None:
    console = Console(emoji=False)
    if view is not None:
        leader = f"[bold green]{escape(view.leader)}[/] leads" if view.leader is not None else "[bold red]no leader[/]"
        console.print(f"{leader}, epoch {view.epoch}")
        nodes = Table("node", "slots", "used", "address", "version", box=None, header_style="dim")
        for id, record in view.nodes:
            nodes.add_row(escape(id), str(record.slots), str(used[id]), escape(record.address), escape(record.version))
        console.print(nodes)
    servers = Table("zookeeper", "mode", "latency max", "fsync max", "problems", box=None, header_style="dim")
    for health in healths:
        colour = "red" if health.mode == "unreachable" else "yellow" if health.problems else "green"
        servers.add_row(
            escape(health.id),
            f"[{colour}]{health.mode}[/]",
            _milliseconds(health.latency_ms_max),
            _milliseconds(health.fsync_ms_max),
            escape("; ".join(health.problems)),
        )
    console.print(servers)


def _milliseconds(value: int | None) -> str:
    return "?" if value is None else f"{value} ms"
