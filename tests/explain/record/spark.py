"""Two Spark Masters that elect their leader with ZooKeeper, a Worker, and what a rolling restart of ZooKeeper does to them."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import Ensemble
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, restart_one_by_one, three_servers
from tests.harness.cluster.spark_standalone import Daemon
from tests.harness.waiting import eventually

LEADS = "I have been elected leader!"
BACK_S = 120.0
SETTLED_S = 10.0
"""So much time lies between one server and the next."""


class Masters:
    """What ends by itself is started again, as whatever supervises it would."""

    def __init__(self, directory: Path, connect: str) -> None:
        self._directory = directory
        self._ports = [Ports.pick().client for _ in range(2)]
        self._properties = {"spark.deploy.recoveryMode": "ZOOKEEPER", "spark.deploy.zookeeper.url": connect}
        self.running: dict[str, Daemon] = {}

    @property
    def url(self) -> str:
        return "spark://" + ",".join(f"{LOOPBACK}:{port}" for port in self._ports)

    @property
    def logs(self) -> dict[str, Path]:
        return {f"spark-{name}": daemon.log for name, daemon in self.running.items()}

    def supervise(self) -> None:
        for number, port in enumerate(self._ports, 1):
            name = f"master-{number}"
            if name not in self.running or not self.running[name].alive:
                arguments = ("--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
                self.running[name] = Daemon(self._directory / name, "master.Master", *arguments, properties=self._properties)
                self.running[name].until_logged("Started daemon with process name")

    def one_leads(self) -> bool:
        self.supervise()
        masters = [daemon for name, daemon in self.running.items() if name.startswith("master")]
        return any(daemon.alive and daemon.logged(LEADS) and not daemon.logged("revoked") for daemon in masters)

    def start_worker(self) -> None:
        directory = self._directory / "worker-1"
        arguments = ("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", "512m")
        self.running["worker-1"] = Daemon(
            directory, "worker.Worker", *arguments, "--work-dir", str(directory / "work"), self.url
        )
        self.running["worker-1"].until_logged("Successfully registered with master")


@contextlib.contextmanager
def masters_on(ensemble: Ensemble, directory: Path) -> Iterator[Masters]:
    """The Worker first, so that it is not left alone at the end."""
    masters = Masters(directory / "spark", ensemble.connect)
    try:
        eventually(masters.one_leads, BACK_S, "a Master leads")
        masters.start_worker()
        yield masters
    finally:
        for name in sorted(masters.running, reverse=True):
            masters.running[name].stop()


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, masters_on(ensemble, directory) as masters:
        time.sleep(USED_S)  # nothing happens for so long
        return {**logs_of(ensemble), **masters.logs}


def rolling_restart(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, masters_on(ensemble, directory) as masters:

        def settled() -> None:
            time.sleep(SETTLED_S)
            eventually(masters.one_leads, BACK_S, "a Master leads")

        restart_one_by_one(ensemble, settled)
        return {**logs_of(ensemble), **masters.logs}


SITUATIONS: dict[str, Situation] = {"spark-masters-healthy": healthy, "spark-masters-rolling-restart": rolling_restart}
