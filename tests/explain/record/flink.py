"""Situations of a Flink cluster with high availability on ZooKeeper and default settings otherwise."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import EmbeddedEnsemble
from tests.explain.record.flink_cluster import Flink
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, restart_one_by_one, three_servers

SETTLED_S = 15.0
"""Time between the restarts of two servers."""
RESTARTS = 4
FAILS_AFTER = 400
"""Number of records: some seconds, and one or two checkpoints."""
DONE = "Completed checkpoint"
RESTARTED = "switched from state RUNNING to RESTARTING"
NO_SLOTS = "NoResourceAvailableException: Could not acquire"
NOTHING: Mapping[str, object] = {}


@contextlib.contextmanager
def flink_on(ensemble: EmbeddedEnsemble, directory: Path, more: Mapping[str, object] = NOTHING) -> Iterator[Flink]:
    flink = Flink(directory / "flink", ensemble.connect_string, more)
    try:
        flink.start("jobmanager")
        flink.start("taskmanager")
        flink.until_logged("jobmanager", "was granted leadership")
        flink.until_logged("taskmanager", "Successful registration at resource manager")
        yield flink
    finally:
        flink.stop()


@contextlib.contextmanager
def counting(flink: Flink, *arguments: str) -> Iterator[None]:
    """Run a job that has completed a checkpoint, and cancel it at the end."""
    job = flink.submit(*arguments)
    flink.until_logged("jobmanager", DONE)
    yield
    flink.run_client("cancel", job)
    flink.until_logged("jobmanager", "from state CANCELLING to CANCELED")


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:
        with counting(flink):
            time.sleep(USED_S)
        return {**logs_of(ensemble), **flink.logs}


def rolling_restart(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:

        def counting_again() -> None:
            time.sleep(SETTLED_S)
            flink.until_logged("jobmanager", DONE, times=flink.count("jobmanager", DONE) + 2)

        with counting(flink):
            restart_one_by_one(ensemble, counting_again)
        return {**logs_of(ensemble), **flink.logs}


def job_fails(directory: Path) -> Mapping[str, Path]:
    """Run a job that fails repeatedly."""
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:
        with counting(flink, str(FAILS_AFTER)):
            flink.until_logged("jobmanager", RESTARTED, times=RESTARTS)
        return {**logs_of(ensemble), **flink.logs}


def slots_gone(directory: Path) -> Mapping[str, Path]:
    """Kill the only TaskManager and replace it later. The slot request timeout is shorter than the default."""
    with three_servers(directory) as ensemble, flink_on(ensemble, directory, {"slot.request.timeout": "3s"}) as flink:
        with counting(flink):
            flink.kill("taskmanager")
            flink.until_logged("jobmanager", NO_SLOTS, times=RESTARTS)
            done = flink.count("jobmanager", DONE)
            flink.start("taskmanager")
            flink.until_logged("jobmanager", DONE, times=done + 1)
        return {**logs_of(ensemble), **flink.logs}


def unreadable_job(directory: Path) -> Mapping[str, Path]:
    """Kill the JobManager, corrupt the stored job, and start another JobManager."""
    with three_servers(directory) as ensemble, flink_on(ensemble, directory) as flink:
        flink.submit()
        flink.until_logged("jobmanager", DONE)
        flink.kill("jobmanager")
        for stored in (flink.directory / "ha").rglob("*"):
            if stored.is_file() and "blob" not in stored.parts:
                stored.write_bytes(b"no job")
        flink.start("jobmanager")
        flink.until_ended("jobmanager")
        return {**logs_of(ensemble), **flink.logs}


SITUATIONS: dict[str, Situation] = {
    "flink-healthy": healthy,
    "flink-rolling-restart": rolling_restart,
    "flink-job-fails": job_fails,
    "flink-slots-gone": slots_gone,
    "flink-unreadable-job": unreadable_job,
}
