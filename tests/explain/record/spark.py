"""Situations of two Spark Masters that elect a leader with ZooKeeper, and a Worker: healthy, and a rolling restart."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import EmbeddedEnsemble
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, restart_one_by_one, three_servers
from tests.harness.cluster.spark_standalone import SparkDaemon
from tests.harness.waiting import wait_until

LEADS = "I have been elected leader!"
BACK_S = 120.0
SETTLED_S = 10.0
"""Time between the restarts of two servers."""


class Masters:
    """Masters and a Worker. A Master that exits is started again, as a supervisor would."""

    def __init__(self, directory: Path, connect: str) -> None:
        self._directory = directory
        self._ports = [Ports.pick().client for _ in range(2)]
        self._properties = {"spark.deploy.recoveryMode": "ZOOKEEPER", "spark.deploy.zookeeper.url": connect}
        self.running: dict[str, SparkDaemon] = {}

    @property
    def url(self) -> str:
        return "spark://" + ",".join(f"{LOOPBACK}:{port}" for port in self._ports)

    @property
    def logs(self) -> dict[str, Path]:
        return {f"spark-{name}": daemon.log for name, daemon in self.running.items()}

    def supervise(self) -> None:
        for number, port in enumerate(self._ports, 1):
            name = f"master-{number}"
            if name not in self.running or not self.running[name].is_alive:
                arguments = ("--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
                self.running[name] = SparkDaemon(
                    self._directory / name, "master.Master", *arguments, properties=self._properties
                )
                self.running[name].wait_until_logged("Started daemon with process name")

    def one_leads(self) -> bool:
        self.supervise()
        masters = [daemon for name, daemon in self.running.items() if name.startswith("master")]
        return any(daemon.is_alive and daemon.has_logged(LEADS) and not daemon.has_logged("revoked") for daemon in masters)

    def start_worker(self) -> None:
        directory = self._directory / "worker-1"
        arguments = ("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", "512m")
        self.running["worker-1"] = SparkDaemon(
            directory, "worker.Worker", *arguments, "--work-dir", str(directory / "work"), self.url
        )
        self.running["worker-1"].wait_until_logged("Successfully registered with master")


@contextlib.contextmanager
def masters_on(ensemble: EmbeddedEnsemble, directory: Path) -> Iterator[Masters]:
    """Run Masters and a Worker; stop the Worker first, so that it never runs without a Master."""
    masters = Masters(directory / "spark", ensemble.connect_string)
    try:
        wait_until(masters.one_leads, BACK_S, "a Master leads")
        masters.start_worker()
        yield masters
    finally:
        for name in sorted(masters.running, reverse=True):
            masters.running[name].stop()


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, masters_on(ensemble, directory) as masters:
        time.sleep(USED_S)
        return {**logs_of(ensemble), **masters.logs}


def rolling_restart(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, masters_on(ensemble, directory) as masters:

        def settled() -> None:
            time.sleep(SETTLED_S)
            wait_until(masters.one_leads, BACK_S, "a Master leads")

        restart_one_by_one(ensemble, settled)
        return {**logs_of(ensemble), **masters.logs}


SITUATIONS: dict[str, Situation] = {"spark-masters-healthy": healthy, "spark-masters-rolling-restart": rolling_restart}
