"""Real ZooKeeper servers on this machine, started from the jars that PySpark ships.

Owns: finding Java and the jars, the servers' files and ports, their processes, and the faults that tests give them.
Never does: speak for a client, listen beyond loopback, or leave a server behind when its owner is gone.
"""

from holdfast.zk.embedded.configuration import ServerTls, Settings
from holdfast.zk.embedded.ensemble import Ensemble
from holdfast.zk.embedded.ports import Ports
from holdfast.zk.embedded.server import Server
from holdfast.zk.embedded.tethered_process import tethered

__all__ = ["Ensemble", "Ports", "Server", "ServerTls", "Settings", "tethered"]
