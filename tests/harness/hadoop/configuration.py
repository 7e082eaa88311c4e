"""Configuration files of a Hadoop cluster on loopback, for its daemons and for its clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from holdfast.zk.embedded.ports import LOOPBACK, Ports

QUEUES = ("default", "narrow")
"""Queues below `root`. Each has half of the cluster and may not take more."""
NODE_MB = 4096
CONTAINER_MB = 128
"""Smallest container; requests are rounded up to multiples of it."""
LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


@dataclass(frozen=True, slots=True)
class HadoopPorts:
    namenode: int
    namenode_http: int
    datanode: int
    datanode_http: int
    datanode_ipc: int
    resourcemanager: int
    scheduler: int
    tracker: int
    admin: int
    resourcemanager_http: int

    @classmethod
    def pick(cls) -> "HadoopPorts":
        numbers: list[int] = []
        while len(numbers) < 10:
            numbers += Ports.pick(avoid=numbers).numbers()
        return cls(*numbers[:10])


def write_configuration(directory: Path, data: Path, ports: HadoopPorts) -> None:
    """Write the files of `HADOOP_CONF_DIR`. The data of the daemons goes below `data`."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        "core-site": {
            "fs.defaultFS": f"hdfs://{LOOPBACK}:{ports.namenode}",
            "hadoop.tmp.dir": f"{data}/tmp",
            "ipc.client.connect.max.retries": "3",
        },
        "hdfs-site": _hdfs(data, ports),
        "yarn-site": _yarn(data, ports),
        "capacity-scheduler": _scheduler(),
    }
    for name, properties in files.items():
        (directory / f"{name}.xml").write_text(_xml(properties))
    (directory / "log4j.properties").write_text(LOG4J)
    for page in ("hdfs", "datanode"):  # the web pages are not on Maven Central, and the daemons require their folders
        (directory / "webapps" / page).mkdir(parents=True, exist_ok=True)


def node_manager_properties(data: Path) -> dict[str, str]:
    """Return the settings that differ between NodeManagers: their directories. Their ports are chosen by the kernel."""
    return {
        "yarn.nodemanager.hostname": LOOPBACK,
        "yarn.nodemanager.bind-host": LOOPBACK,
        "yarn.nodemanager.address": f"{LOOPBACK}:0",
        "yarn.nodemanager.localizer.address": f"{LOOPBACK}:0",
        "yarn.nodemanager.webapp.address": f"{LOOPBACK}:0",
        "yarn.nodemanager.collector-service.address": f"{LOOPBACK}:0",
        "yarn.nodemanager.local-dirs": f"{data}/local",
        "yarn.nodemanager.log-dirs": f"{data}/logs",
        "yarn.nodemanager.resource.memory-mb": str(NODE_MB),
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "100",
        # A NodeManager that stops while its ResourceManager is away must not wait for it.
        "yarn.nodemanager.unregister.delay-ms": "0",
    }


def _hdfs(data: Path, ports: HadoopPorts) -> dict[str, str]:
    return {
        "dfs.replication": "1",
        "dfs.namenode.name.dir": f"file://{data}/namenode",
        "dfs.namenode.http-address": f"{LOOPBACK}:{ports.namenode_http}",
        "dfs.namenode.rpc-bind-host": LOOPBACK,
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": f"file://{data}/datanode",
        "dfs.datanode.address": f"{LOOPBACK}:{ports.datanode}",
        "dfs.datanode.http.address": f"{LOOPBACK}:{ports.datanode_http}",
        "dfs.datanode.ipc.address": f"{LOOPBACK}:{ports.datanode_ipc}",
        "dfs.datanode.hostname": LOOPBACK,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    }


def _yarn(data: Path, ports: HadoopPorts) -> dict[str, str]:
    return {
        "yarn.resourcemanager.hostname": LOOPBACK,
        "yarn.resourcemanager.address": f"{LOOPBACK}:{ports.resourcemanager}",
        "yarn.resourcemanager.scheduler.address": f"{LOOPBACK}:{ports.scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"{LOOPBACK}:{ports.tracker}",
        "yarn.resourcemanager.admin.address": f"{LOOPBACK}:{ports.admin}",
        "yarn.resourcemanager.webapp.address": f"{LOOPBACK}:{ports.resourcemanager_http}",
        "yarn.resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        # A restarted ResourceManager knows its applications again, and their containers keep running.
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
        "yarn.resourcemanager.store.class": ("org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"),
        "yarn.resourcemanager.fs.state-store.uri": f"file://{data}/resourcemanager",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.scheduler.minimum-allocation-mb": str(CONTAINER_MB),
        "yarn.scheduler.maximum-allocation-mb": str(NODE_MB),
        "yarn.resourcemanager.connect.retry-interval.ms": "1000",
        "yarn.client.application-client-protocol.poll-interval-ms": "200",
        "yarn.webapp.api-service.enable": "false",
    }


def _scheduler() -> dict[str, str]:
    share = 100 // len(QUEUES)
    return {
        "yarn.scheduler.capacity.root.queues": ",".join(QUEUES),
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
        **{
            f"yarn.scheduler.capacity.root.{queue}.{name}": value
            for queue in QUEUES
            for name, value in {"capacity": str(share), "maximum-capacity": str(share), "user-limit-factor": "10"}.items()
        },
    }


def _xml(properties: Mapping[str, str]) -> str:
    entries = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>" for name, value in properties.items()
    ]
    return "\n".join(["<configuration>", *entries, "</configuration>", ""])
