"""Entry point of the agent: `python -m holdfast.cli.agent_main CONFIG [--accept-zookeeper]`, started by the guard."""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
import threading
from pathlib import Path

from holdfast import __version__, config, log
from holdfast.api import app as http
from holdfast.api import failsafe_routes, log_routes
from holdfast.clock import SystemClock
from holdfast.errors import Refused, Unavailable
from holdfast.model.cluster_records import NodeRecord
from holdfast.node.agent import Agent, NodeSettings
from holdfast.node.guard.guard_process import CANNOT_RUN_EXIT_CODE
from holdfast.node.guard_link import connect_to_guard
from holdfast.node.node_directory import NodeDirectory
from holdfast.node.shared_settings import SharedSettings
from holdfast.node.wiring import NodeComponents
from holdfast.runner.watchdog.isolation import find_level, remove_leftover_cgroups
from holdfast.zk.kazoo_transport import client_factory
from holdfast.zk.records.paths import Paths


def main() -> int:
    logger = log.configure_logging(component="agent")
    try:
        config_file = Path(sys.argv[1]).absolute()
        settings = config.load_config(config_file)
        logger = log.configure_logging(component="agent", node=settings.node)
        directory = NodeDirectory(settings.directory)
        with directory.lock():
            if settings.storage == config.single_node_storage(settings.directory):
                # Create only the node's own storage. A configured directory may be a mount point that is not mounted yet.
                Path(settings.storage).mkdir(exist_ok=True)
            isolation = find_level()  # forks, which is safe only before the first thread starts
            accept = "--accept-zookeeper" in sys.argv[2:]
            asyncio.run(_run(settings, config_file, directory, logger, isolation, accept=accept))
    except Refused as error:
        logger.error("cannot run", problem=str(error))
        return CANNOT_RUN_EXIT_CODE
    except (OSError, Unavailable) as error:
        # Possibly temporary, for example a full disk: the guard restarts the agent.
        logger.error("cannot run now", problem=str(error))
        return 1
    return 0


async def _run(
    settings: config.Config,
    config_file: Path,
    directory: NodeDirectory,
    logger: log.Log,
    isolation: tuple[str, str],
    *,
    accept: bool,
) -> None:
    level, isolation_problem = isolation
    remove_leftover_cgroups(level)
    listener = _open_listener(settings, directory)
    address = http.listener_url(listener)
    last_seen = directory.open_last_seen(forget=accept)
    _close_previous_session(directory, logger)
    clock = SystemClock()
    paths = Paths(settings.cluster, prefix=settings.connection.chroot)
    shared_settings = SharedSettings(
        paths,
        storage=settings.storage,
        new_secret=lambda: secrets.token_hex(32),
        saved_secret=directory.read_secret(),
        save_secret=directory.save_secret,
    )
    components = NodeComponents(settings, config_file, clock, logger)
    agent = Agent(
        NodeSettings(
            node=settings.node,
            record=NodeRecord(
                slots=settings.slots,
                address=address,
                version=__version__,
                newest_schema=components.attempts.newest_schema(),
                ends_attempts=True,
                certifies_expiry=True,
                isolation=level,
                isolation_problem=isolation_problem,
            ),
            paths=paths,
            timing=settings.timing,
        ),
        connect=client_factory(settings.connection),
        clock=clock,
        last_seen=last_seen,
        log=logger,
        nonce=lambda: secrets.token_hex(6),
        on_session=lambda session: directory.save_session(settings.connection, session),
        shared_settings=shared_settings,
        known_peers=components.peers,
        make_role_loops=components.make_role_loops,
        health=components.health.health,
        on_registered=components.cleanup.start_if_due,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, agent.stop)
    connect_to_guard(agent.stop)
    routes = [
        *failsafe_routes.routes(components.promises, lambda: shared_settings.secret, settings.node),
        *log_routes.routes(components.attempts.root, lambda: shared_settings.secret),
    ]
    server = http.build_server(http.build_app(agent, routes))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    serving.add_done_callback(lambda _: agent.stop())  # exit without the API: the guard restarts the agent
    exchange = asyncio.create_task(components.make_promise_exchange(lambda: shared_settings.secret).run())
    directory.write_agent_file(api=address)
    logger.info("agent started", version=__version__, api=address, connect=settings.connection.connect_string)
    components.health.start()
    try:
        await agent.run()
    finally:
        components.health.stop()
        exchange.cancel()
        components.attempts.close()
        last_seen.close()
        server.should_exit = True
        await serving
    logger.info("agent stopped")


def _open_listener(settings: config.Config, directory: NodeDirectory) -> socket.socket:
    """Open the listener of the HTTP API. A port that the system selects is kept across restarts of the agent.

    Without ZooKeeper, the other nodes cannot learn another port, and their drivers need the promises of this node.
    """
    previous_port = directory.read_previous_port()
    if settings.api_port == 0 and previous_port != 0:
        with contextlib.suppress(Refused):  # another process has the port by now
            return http.open_listener(settings.api_host, previous_port)
    return http.open_listener(settings.api_host, settings.api_port)


def _close_previous_session(directory: NodeDirectory, logger: log.Log) -> None:
    """Close the previous agent's session in a daemon thread: ZooKeeper may become reachable later."""
    session = directory.read_previous_session()
    if session is None:
        return

    def close() -> None:
        closed = session.close()
        logger.info("leftover session closed" if closed else "leftover session expires", session=hex(session.session_id))

    threading.Thread(target=close, name="leftover", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
