"""Job with a claimed checkpoint, whose attempts run with the real driver execution and without ZooKeeper."""

import asyncio
import secrets
from pathlib import Path

from holdfast import log
from holdfast.clock import SystemClock
from holdfast.errors import Unavailable
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Outcome, Report, Spec
from holdfast.runner.execution.driver import LocalDriverExecution
from holdfast.runner.execution.driver_command import CHECKPOINT_CONF
from holdfast.runner.lease import AttemptAssignment
from holdfast.storage import CheckpointClaim, Claims, Storage, checkpoint_location, open_storage
from holdfast.storage.location import parse_location
from holdfast.zk.session.connection_settings import ConnectionSettings
from tests.harness.waiting import wait_until_async

CLOCK = SystemClock()
NO_ZOOKEEPER = ConnectionSettings((("127.0.0.1", 1),))
TIMEOUT_S = 60.0
LONG_S = 600.0
SLEEPER = "import time\ntime.sleep(600)\n"
CRASHER = "import os\nos.kill(os.getpid(), {number})\n"


class StorageMountedLate(Storage):
    """Storage that is mounted on this node after the first failed access, as on a machine that has just been started."""

    def __init__(self, directory: Path) -> None:
        super().__init__(parse_location(str(directory)), in_subprocess=True, stall_timeout_s=TIMEOUT_S)
        self._directory = directory
        self._away = directory.rename(directory.with_name("unmounted"))
        directory.mkdir()

    def require_mounted(self) -> None:
        try:
            super().require_mounted()
        except Unavailable:
            self._directory.rmdir()
            self._away.rename(self._directory)
            raise


class StoredJob:
    """Job whose first attempt has claimed its checkpoint. ZooKeeper has only learned that the attempt was lost."""

    first_report = Report(
        Attempt(1), NodeId("n2"), 0.0, outcome=Outcome(Ending.LOST, "its node is gone"), first_unreported=Attempt(1)
    )

    def __init__(self, directory: Path, root: Path | None = None) -> None:
        """`root` is the root of the checkpoints, if the job names one."""
        self._directory = directory
        self.location = directory / "storage"
        self.location.mkdir()
        (directory / "script").write_text(SLEEPER)
        blob = open_storage(str(self.location)).put(directory / "script")
        self.spec = Spec("sleeper", "sleeper.py", blob, conf=((CHECKPOINT_CONF, str(root)),) if root is not None else ())
        self.root = str(root or self.location / "checkpoints" / "j1")
        self.claims = Claims(checkpoint_location(self.root, str(self.location)))
        self.claims.claim(CheckpointClaim(cluster="c", job="j1", attempt=1, node="n2", nonce="first"))

    def execution(
        self, attempt: int, storage: Storage | None = None, *, job: str = "j1", version: int = 1
    ) -> LocalDriverExecution:
        execution = LocalDriverExecution(
            AttemptAssignment(JobId(job), Attempt(attempt), NodeId("n1"), secrets.token_hex(8), version=version),
            self._directory / f"{job}-{attempt}",
            cluster="c",
            storage=storage or open_storage(str(self.location)),
            ensemble=NO_ZOOKEEPER,
            clock=CLOCK,
            log=log.configure_logging(component="runner"),
            read_phase=lambda _job: None,
        )
        execution.set_deadline(CLOCK.boottime() + LONG_S)
        return execution

    async def run(self, execution: LocalDriverExecution, previous: Report | None, spec: Spec | None = None) -> Outcome | None:
        """Return the outcome of an attempt that starts no driver; None if it starts one, which is then killed."""
        running = asyncio.create_task(execution.run_driver(spec or self.spec, previous))
        await wait_until_async(lambda: execution.driver_pid or running.done(), TIMEOUT_S, "the attempt runs or has ended")
        driver_pid = execution.driver_pid
        running.cancel()
        await asyncio.wait({running})
        return running.result() if driver_pid is None else None


def finished_job(directory: Path) -> StoredJob:
    job = StoredJob(directory)
    job.claims.write_outcome(1, encode(Outcome(Ending.FINISHED, "the script ended")))
    return job
