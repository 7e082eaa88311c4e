"""Hadoop cluster: HDFS and YARN, each daemon a process of its own that a test can kill and start again."""

import contextlib
import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, Self

from holdfast.zk.embedded.java import find_jars
from holdfast.zk.embedded.ports import LOOPBACK
from tests.harness.cluster.process_observer import list_pids, read_command
from tests.harness.hadoop.configuration import HadoopPorts, node_manager_properties, write_configuration
from tests.harness.hadoop.daemon import READY_TIMEOUT_S, HadoopDaemon, hadoop_command
from tests.harness.waiting import wait_until

APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
SPARK_CONF = {
    "spark.master": "yarn",
    "spark.driver.host": LOOPBACK,
    "spark.yarn.jars": f"local:{find_jars()}/*",  # containers read PySpark's own jars instead of a copy in HDFS
    "spark.yarn.am.memory": "384m",
    "spark.yarn.am.memoryOverhead": "64m",
    "spark.yarn.am.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.instances": "1",
    "spark.executor.memory": "480m",
    "spark.executor.memoryOverhead": "128m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of a job for the cluster of the tests: small containers, and no upload of Spark."""


class HadoopCluster:
    """HDFS with one DataNode, and YARN with NodeManagers, while the context is open. Without NodeManagers it is HDFS alone."""

    def __init__(self, directory: Path, *, node_managers: int = 1) -> None:
        self.directory = directory
        self.ports = HadoopPorts.pick()
        self.configuration = directory / "conf"
        self._data = directory / "data"
        self._count = node_managers
        self.namenode = self._daemon("namenode", "hdfs.server.namenode.NameNode", "RPC up at")
        self.datanode = self._daemon("datanode", "hdfs.server.datanode.DataNode", "successfully registered with NN")
        self.resourcemanager = self._daemon(
            "resourcemanager", "yarn.server.resourcemanager.ResourceManager", "Transitioned to active state"
        )
        self.node_managers: list[HadoopDaemon] = []

    def __enter__(self) -> Self:
        write_configuration(self.configuration, self._data, self.ports)
        format_command = hadoop_command(self.configuration, "hdfs.server.namenode.NameNode", "-format", "-nonInteractive")
        result = subprocess.run(format_command, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        daemons = [self.namenode, self.datanode, *([self.resourcemanager] if self._count else [])]
        for daemon in daemons:
            daemon.start()
        for daemon in daemons:
            daemon.wait_until_ready()
        for _ in range(self._count):
            self.start_node_manager()

    def __exit__(self, *_: object) -> None:
        containers = self.containers()
        for daemon in (*self.node_managers, self.resourcemanager, self.datanode, self.namenode):
            daemon.kill()
        for pid in containers:
            kill_process(pid)

    def _daemon(self, name: str, main_class: str, ready: str) -> HadoopDaemon:
        return HadoopDaemon(self.directory / name, self.configuration, main_class, ready)

    @property
    def root(self) -> str:
        """Root of HDFS."""
        return f"hdfs://{LOOPBACK}:{self.ports.namenode}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a node whose jobs use this cluster."""
        return {"HADOOP_CONF_DIR": str(self.configuration)}

    def start_node_manager(self) -> None:
        name = f"nodemanager-{len(self.node_managers) + 1}"
        daemon = HadoopDaemon(
            self.directory / name,
            self.configuration,
            "yarn.server.nodemanager.NodeManager",
            "Registered with ResourceManager",
            properties=node_manager_properties(self._data / name),
        )
        self.node_managers.append(daemon)
        daemon.start()
        daemon.wait_until_ready()

    # YARN

    def applications(self) -> list[dict[str, Any]]:
        answer = self._request("apps")
        return list((answer.get("apps") or {}).get("app", ()))

    def application(self, id: str) -> dict[str, Any]:
        return dict(self._request(f"apps/{id}")["app"])

    def kill_application(self, id: str) -> None:
        self._request(f"apps/{id}/state?user.name=root", "PUT", {"state": "KILLED"})

    def submit_sleeper(self, queue: str, megabytes: int) -> str:
        """Start an application whose only container sleeps. Return its id."""
        id = str(self._request("apps/new-application?user.name=root", "POST", {})["application-id"])
        request = {
            "application-id": id,
            "application-name": "sleeper",
            "queue": queue,
            "am-container-spec": {"commands": {"command": "sleep 3600"}},
            "max-app-attempts": 1,
            "resource": {"memory": megabytes, "vCores": 1},
            "application-type": "SLEEPER",
        }
        self._request("apps?user.name=root", "POST", request)
        wait_until(lambda: self.application(id)["runningContainers"] == 1, READY_TIMEOUT_S, f"{id} has its container")
        return id

    def _request(self, path: str, method: str = "GET", body: object = None) -> dict[str, Any]:
        url = f"http://{LOOPBACK}:{self.ports.resourcemanager_http}/ws/v1/cluster/{path}"
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            text = answer.read()
        return dict(json.loads(text)) if text else {}

    def containers(self) -> list[int]:
        """Return the pids of all processes in containers."""
        inside = f"{self._data}/nodemanager-"
        return [pid for pid in list_pids() if _working_directory(pid).startswith(inside)]

    def java_containers(self, main_class: str) -> list[int]:
        """Return the pids of the JVMs in containers that run this class."""
        commands = ((pid, read_command(pid)) for pid in self.containers())
        return [pid for pid, command in commands if main_class in command and command[0].endswith("java")]

    def kill_container(self, main_class: str) -> int:
        """Kill the JVM of one container, as the kernel does when memory runs out. Return its pid."""
        pid = wait_until(lambda: next(iter(self.java_containers(main_class)), None), READY_TIMEOUT_S, f"{main_class} runs")
        kill_process(pid)
        return pid


def kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _working_directory(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""
