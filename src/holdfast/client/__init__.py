"""Python API of Holdfast: submit, watch and control the jobs of a cluster without a shell.

    import holdfast.client

    with holdfast.client.connect() as cluster:
        job = cluster.submit("count.py", name="count")
        cluster.wait(job, until="first_batch", timeout_s=120)

`connect` finds a cluster and returns a `Cluster`, which has all operations. `docs/client.md` describes them.

Importing this package is cheap: ZooKeeper, storage and log access are imported when a method needs them. It never prints.
"""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.client.callbacks import Transfer
from holdfast.client.cluster import Cluster, connect

if TYPE_CHECKING:
    from holdfast.client.cluster_status import ClusterStatus
    from holdfast.client.deployment.apply import JobChange
    from holdfast.client.deployment.upgrade import UpgradeResult
    from holdfast.client.jobs.job_control import ControlResult
    from holdfast.client.jobs.listing import JobDetails, JobEvent, JobList
    from holdfast.client.jobs.quarantine import QuarantinedJob
    from holdfast.client.jobs.waiting import WaitFailed, WaitTimeout
    from holdfast.client.logs.log_follower import LogOutput
    from holdfast.savepoint import Manifest as Savepoint
    from holdfast.zk.records.stored_job import StoredJob as Job

__all__ = [
    "Cluster",
    "ClusterStatus",
    "ControlResult",
    "Job",
    "JobChange",
    "JobDetails",
    "JobEvent",
    "JobList",
    "LogOutput",
    "QuarantinedJob",
    "Savepoint",
    "Transfer",
    "UpgradeResult",
    "WaitFailed",
    "WaitTimeout",
    "connect",
]

_LAZY = {
    "ClusterStatus": ("holdfast.client.cluster_status", "ClusterStatus"),
    "ControlResult": ("holdfast.client.jobs.job_control", "ControlResult"),
    "Job": ("holdfast.zk.records.stored_job", "StoredJob"),
    "JobChange": ("holdfast.client.deployment.apply", "JobChange"),
    "JobDetails": ("holdfast.client.jobs.listing", "JobDetails"),
    "JobEvent": ("holdfast.client.jobs.listing", "JobEvent"),
    "JobList": ("holdfast.client.jobs.listing", "JobList"),
    "LogOutput": ("holdfast.client.logs.log_follower", "LogOutput"),
    "QuarantinedJob": ("holdfast.client.jobs.quarantine", "QuarantinedJob"),
    "Savepoint": ("holdfast.savepoint", "Manifest"),
    "UpgradeResult": ("holdfast.client.deployment.upgrade", "UpgradeResult"),
    "WaitFailed": ("holdfast.client.jobs.waiting", "WaitFailed"),
    "WaitTimeout": ("holdfast.client.jobs.waiting", "WaitTimeout"),
}
"""Module and name of each public type that is imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)
