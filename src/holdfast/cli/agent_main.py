"""The agent's process: `python -m holdfast.cli.agent_main CONFIG [--accept-zookeeper]`, started by the guard."""

import asyncio
import secrets
import signal
import sys
import threading
from pathlib import Path

from holdfast import __version__, config, log
from holdfast.api import app as http
from holdfast.api import failsafe_routes, log_routes
from holdfast.clock import SystemClock
from holdfast.errors import Refused, Unavailable
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA
from holdfast.node.agent import Agent, NodeSettings
from holdfast.node.guard import FINAL_EXIT
from holdfast.node.guard_link import tie_to_guard
from holdfast.node.node_directory import NodeDirectory
from holdfast.node.shared_settings import Commons
from holdfast.node.wiring import NodeWork
from holdfast.zk.kazoo_transport import connect_by
from holdfast.zk.records.paths import Paths


def main() -> int:
    logger = log.configure(component="agent")
    try:
        config_file = Path(sys.argv[1]).absolute()
        settings = config.load(config_file)
        logger = log.configure(component="agent", node=settings.node)
        directory = NodeDirectory(settings.directory)
        with directory.locked():
            if settings.storage == config.own_storage(settings.directory):
                # A place of somebody else's is not made: it may only not be mounted yet.
                Path(settings.storage).mkdir(exist_ok=True)
            asyncio.run(_run(settings, config_file, directory, logger, accept="--accept-zookeeper" in sys.argv[2:]))
    except Refused as error:
        logger.error("cannot run", problem=str(error))
        return FINAL_EXIT
    except (OSError, Unavailable) as error:
        # Such as a full disk at the start. It may pass, so the guard tries again.
        logger.error("cannot run now", problem=str(error))
        return 1
    return 0


async def _run(settings: config.Config, config_file: Path, directory: NodeDirectory, logger: log.Log, *, accept: bool) -> None:
    listener = http.listen(settings.api_host, settings.api_port)
    address = http.address_of(listener)
    memory = directory.memory(forget=accept)
    _close_leftover_session(directory, logger)
    clock = SystemClock()
    paths = Paths(settings.cluster, prefix=settings.ensemble.chroot)
    commons = Commons(paths, storage=settings.storage, new_secret=lambda: secrets.token_hex(32))
    work = NodeWork(settings, config_file, clock, logger)
    agent = Agent(
        NodeSettings(
            node=settings.node,
            record=NodeRecord(slots=settings.slots, address=address, version=__version__, newest_schema=SCHEMA),
            paths=paths,
            timing=settings.timing,
        ),
        connect=connect_by(settings.ensemble),
        clock=clock,
        memory=memory,
        log=logger,
        nonce=lambda: secrets.token_hex(6),
        on_session=lambda session: directory.keep_session(settings.ensemble, session),
        commons=commons,
        make_duties=work.duties,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, agent.stop)
    tie_to_guard(agent.stop)
    routes = [
        *failsafe_routes.routes(work.promises, lambda: commons.secret),
        *log_routes.routes(work.attempts.root, lambda: commons.secret),
    ]
    server = http.server(http.app(agent, routes))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    serving.add_done_callback(lambda _: agent.stop())  # a node that cannot be asked is none: the guard starts another
    directory.publish(api=address)
    logger.info("agent started", version=__version__, api=address, connect=settings.ensemble.connect)
    try:
        await agent.run()
    finally:
        work.attempts.close()
        server.should_exit = True
        await serving
    logger.info("agent stopped")


def _close_leftover_session(directory: NodeDirectory, logger: log.Log) -> None:
    """On a thread that nobody waits for: ZooKeeper may come up later than we do."""
    session = directory.leftover_session()
    if session is None:
        return

    def close() -> None:
        closed = session.close()
        logger.info("leftover session closed" if closed else "leftover session expires", session=hex(session.session_id))

    threading.Thread(target=close, name="leftover", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
