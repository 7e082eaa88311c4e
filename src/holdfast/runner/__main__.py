"""The runner's process: `python -m holdfast.runner ATTEMPT_DIRECTORY LOCK_FD`, started detached by the agent."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from holdfast import config, log
from holdfast.clock import SystemClock
from holdfast.errors import HoldfastError
from holdfast.model.identifiers import Attempt, JobId
from holdfast.runner.attempt import Patience, Runner
from holdfast.runner.attempt_layout import RUN
from holdfast.runner.cds.archive import Archives
from holdfast.runner.driver import DriverWork
from holdfast.runner.driver_command import Supplies
from holdfast.runner.failsafe_client import HttpPeers
from holdfast.runner.lease import Run
from holdfast.storage import open_storage
from holdfast.zk.kazoo_transport import connect_by
from holdfast.zk.records.paths import Paths


def main() -> int:
    directory = Path(sys.argv[1])
    os.set_inheritable(int(sys.argv[2]), False)  # the lock says that the runner lives, not its children
    logger = log.configure(component="runner")
    try:
        fields = json.loads((directory / RUN).read_bytes())
        settings = config.load(Path(fields["config"]))
        run = Run(
            JobId(fields["job"]),
            Attempt(fields["attempt"]),
            settings.node,
            str(fields["nonce"]),
            runner_pid=os.getpid(),
            version=int(fields["version"]),
            on_trial=bool(fields["on_trial"]),
        )
        logger = log.configure(component="runner", node=run.node, job=run.job, attempt=run.attempt)
        asyncio.run(_run(run, settings, directory, logger))
    except (HoldfastError, OSError, ValueError, KeyError, TypeError) as error:
        logger.error("cannot run", problem=str(error))
        return 1
    return 0


async def _run(run: Run, settings: config.Config, directory: Path, logger: log.Log) -> None:
    clock = SystemClock()
    paths = Paths(settings.cluster, prefix=settings.ensemble.chroot)
    runner = Runner(
        run,
        paths,
        connect=connect_by(settings.ensemble),
        clock=clock,
        timing=settings.timing,
        work=DriverWork(
            run,
            directory,
            cluster=settings.cluster,
            storage=open_storage(settings.storage),
            ensemble=settings.ensemble,
            clock=clock,
            log=logger,
            supplies=Supplies(
                archives=Archives(settings.archives) if settings.archives is not None else None,
                connectors=settings.connectors,
                maven=settings.maven,
            ),
        ),
        peers=HttpPeers(lambda: runner.secret, logger),
        log=logger,
        patience=Patience(stop_s=settings.stop_s),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, runner.shut_down)
    await runner.run()


if __name__ == "__main__":
    sys.exit(main())
