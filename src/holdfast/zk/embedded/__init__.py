"""Real ZooKeeper servers on this machine, started from PySpark's jars.

Finds Java and the jars, writes the servers' files, chooses their ports, runs their processes and injects faults for tests.
The servers listen on loopback only, and end when the process that started them ends.
"""

from holdfast.zk.embedded.configuration import ServerSettings, ServerTls
from holdfast.zk.embedded.ensemble import EmbeddedEnsemble
from holdfast.zk.embedded.parent_death_signal import with_parent_death_signal
from holdfast.zk.embedded.ports import Ports
from holdfast.zk.embedded.server import ZooKeeperServer

__all__ = ["EmbeddedEnsemble", "Ports", "ServerSettings", "ServerTls", "ZooKeeperServer", "with_parent_death_signal"]
