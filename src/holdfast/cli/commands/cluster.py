"""`holdfast cluster`: show the leader, the nodes and the health of ZooKeeper."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json
from holdfast.cli.render.sanitize import sanitize

if TYPE_CHECKING:
    from holdfast.client import ClusterStatus


@click.command()
@target_options
@json_option
def cluster(directory: Path | None, connect: str | None, cluster_name: str | None, as_json: bool) -> None:
    """Show the leader, the nodes and the health of the ZooKeeper servers."""
    status = connect_cluster(directory, connect, cluster_name).status()
    if as_json:
        print_json(_as_json(status))
    else:
        _print(status)
    for problem in status.view.problems if status.view is not None else ():
        click.echo(f"holdfast: {problem}", err=True)
    if status.failure is not None:
        raise status.failure


def _as_json(status: "ClusterStatus") -> dict[str, Any]:
    """Return the status as JSON. Scripts rely on these keys."""
    view, used = status.view, status.slots_used
    return {
        "leader": view.leader if view is not None else None,
        "epoch": view.epoch if view is not None else None,
        "nodes": [
            {
                "id": id,
                "slots": record.slots,
                "slots_used": used.get(id, 0),
                "api": record.address,
                "health": record.health,
                "isolation": record.isolation or None,
                "isolation_problem": record.isolation_problem,
            }
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
            for health in status.zookeeper
        ],
    }


def _print(status: "ClusterStatus") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    view, used = status.view, status.slots_used
    console = Console(emoji=False)
    if view is not None:
        leader = f"[bold green]{escape(view.leader)}[/] leads" if view.leader is not None else "[bold red]no leader[/]"
        console.print(f"{leader}, epoch {view.epoch}")
        nodes = Table("node", "slots", "used", "address", "version", "isolation", "health", box=None, header_style="dim")
        for id, record in view.nodes:
            node_health = f"[red]{escape(sanitize(record.health))}[/]" if record.health else "[green]healthy[/]"
            used_slots, address, version = str(used.get(id, 0)), escape(record.address), escape(record.version)
            isolation = escape(sanitize(record.isolation or "?"))
            nodes.add_row(escape(id), str(record.slots), used_slots, address, version, isolation, node_health)
        console.print(nodes)
        for id, record in view.nodes:
            if record.isolation_problem:
                console.print(
                    f"{escape(id)} grants no PID namespace: {escape(sanitize(record.isolation_problem))}", soft_wrap=True
                )
    servers = Table("zookeeper", "mode", "latency max", "fsync max", "problems", box=None, header_style="dim")
    for health in status.zookeeper:
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
