"""HTTP application and server of a node."""

import contextlib
import dataclasses
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from holdfast.api.connection_limits import IDLE_TIMEOUT_S, BoundedProtocol
from holdfast.errors import Refused
from holdfast.node.agent import Agent

BACKLOG = 1024
"""Connections that may wait in the kernel until the event loop accepts them."""
ACCEPTS_PER_PASS_MAX = 16
"""Connections that the event loop takes over before it reads from the earlier ones."""


def build_app(agent: Agent, extra_routes: Sequence[BaseRoute] = ()) -> Starlette:
    async def node(_: Request) -> JSONResponse:
        return JSONResponse(describe_node(agent))

    async def health(_: Request) -> JSONResponse:
        problem = agent.status.problem
        return JSONResponse({"healthy": not problem, "problem": problem}, status_code=503 if problem else 200)

    return Starlette(routes=[Route("/v1/node", node), Route("/healthz", health), *extra_routes])


def describe_node(agent: Agent) -> dict[str, Any]:
    settings, status = agent.settings, agent.status
    return {
        "id": settings.node,
        "version": settings.record.version,
        "cluster": settings.paths.cluster,
        "slots": settings.record.slots,
        "registered": status.registered,
        "leading": agent.is_leading(),
        "epoch": status.epoch,
        "problem": status.problem,
        "work": dataclasses.asdict(agent.leader_stats) if agent.leader_stats is not None else None,
    }


def open_listener(host: str, port: int) -> socket.socket:
    """Bind and listen. Raises Refused if the address is in use or invalid, so that the node fails at its start."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise Refused(f"cannot serve on {host}:{port}: {getattr(error, 'strerror', error)}") from error
    return listener


def listener_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class ApiServer(uvicorn.Server):
    """uvicorn server without its signal handlers: the agent installs its own."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)  # uvicorn has set the backlog to ACCEPTS_PER_PASS_MAX

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def build_server(application: Starlette) -> ApiServer:
    return ApiServer(
        uvicorn.Config(
            application,
            http=BoundedProtocol,
            ws="none",
            backlog=ACCEPTS_PER_PASS_MAX,
            timeout_keep_alive=IDLE_TIMEOUT_S,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
