"""Runner process: `python -m holdfast.runner ATTEMPT_DIRECTORY LOCK_FD`. The agent starts it detached."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from holdfast import config, log
from holdfast.clock import SystemClock, boot_id
from holdfast.errors import HoldfastError
from holdfast.model.identifiers import Attempt, JobId
from holdfast.runner.attempt import Runner
from holdfast.runner.attempt_layout import RUN_FILE
from holdfast.runner.cds.archive import ArchiveDirectory
from holdfast.runner.execution.driver import LocalDriverExecution
from holdfast.runner.execution.driver_command import NodeResources
from holdfast.runner.granted_promises import GrantedPromises
from holdfast.runner.job_phases import phase_reader
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.timeouts import AttemptTimeouts
from holdfast.storage import open_storage
from holdfast.zk.kazoo_transport import client_factory
from holdfast.zk.records.paths import Paths


def main() -> int:
    directory = Path(sys.argv[1])
    os.set_inheritable(int(sys.argv[2]), False)  # the lock shows that the runner is alive, so no child may hold it
    logger = log.configure_logging(component="runner")
    try:
        fields = json.loads((directory / RUN_FILE).read_bytes())
        settings = config.load_config(Path(fields["config"]))
        run = AttemptAssignment(
            JobId(fields["job"]),
            Attempt(fields["attempt"]),
            settings.node,
            str(fields["nonce"]),
            runner_pid=os.getpid(),
            version=int(fields["version"]),
            on_trial=bool(fields["on_trial"]),
        )
        logger = log.configure_logging(component="runner", node=run.node, job=run.job, attempt=run.attempt)
        asyncio.run(_run(run, settings, directory, logger))
    except (HoldfastError, OSError, ValueError, KeyError, TypeError) as error:
        logger.error("cannot run", problem=str(error))
        return 1
    return 0


async def _run(run: AttemptAssignment, settings: config.Config, directory: Path, logger: log.Log) -> None:
    clock = SystemClock()
    paths = Paths(settings.cluster, prefix=settings.connection.chroot)
    connect = client_factory(settings.connection)
    runner = Runner(
        run,
        paths,
        connect=connect,
        clock=clock,
        timing=settings.timing,
        driver=LocalDriverExecution(
            run,
            directory,
            cluster=settings.cluster,
            storage=open_storage(settings.storage),
            ensemble=settings.connection,
            clock=clock,
            log=logger,
            read_phase=phase_reader(connect, paths),
            resources=NodeResources(
                cds_archives=ArchiveDirectory(settings.archives) if settings.archives is not None else None,
                connectors=settings.connectors,
                maven_mirror=settings.maven,
            ),
        ),
        peers=GrantedPromises(directory, boot=boot_id()),
        log=logger,
        timeouts=AttemptTimeouts(stop_timeout_s=settings.stop_s),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, runner.shut_down)
    await runner.run()


if __name__ == "__main__":
    sys.exit(main())
