"""The routes of a node."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdfast.errors import Refused
from holdfast.node.agent import Agent


def app(agent: Agent) -> Starlette:
    async def node(_: Request) -> JSONResponse:
        return JSONResponse(describe(agent))

    async def health(_: Request) -> JSONResponse:
        problem = agent.status.problem
        return JSONResponse({"healthy": not problem, "problem": problem}, status_code=503 if problem else 200)

    return Starlette(routes=[Route("/v1/node", node), Route("/healthz", health)])


def describe(agent: Agent) -> dict[str, Any]:
    settings, status = agent.settings, agent.status
    return {
        "id": settings.node,
        "version": settings.record.version,
        "cluster": settings.paths.cluster,
        "slots": settings.record.slots,
        "registered": status.registered,
        "leading": agent.leading(),
        "epoch": status.epoch,
        "problem": status.problem,
    }


def listen(host: str, port: int) -> socket.socket:
    """Bind at once, so that a port in use is a sentence at start and not a surprise later."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise Refused(f"cannot serve on {host}:{port}: {getattr(error, 'strerror', error)}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process that serves has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(application: Starlette) -> Server:
    return Server(uvicorn.Config(application, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1))
