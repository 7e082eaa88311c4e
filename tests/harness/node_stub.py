"""HTTP API of a node: real routes and the real server, in a thread."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from holdfast.api import app as http
from holdfast.api.log_routes import routes
from tests.harness.waiting import wait_until


@dataclass
class AttemptFiles:
    """Directory with the attempts of a node."""

    root: Path

    def directory(self, job: str, attempt: int) -> Path:
        directory = self.root / job / str(attempt)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def write(self, job: str, attempt: int, data: bytes, *, number: int | None = None) -> None:
        name = "driver.log" if number is None else f"driver.log.{number}"
        with (self.directory(job, attempt) / name).open("ab") as file:
            file.write(data)

    def rotate(self, job: str, attempt: int, *, files: int = 3) -> None:
        """Rotate the log like a runner, and drop the oldest file."""
        log = self.directory(job, attempt) / "driver.log"
        names = [log, *(log.with_name(f"driver.log.{number}") for number in range(1, files))]
        names[-1].unlink(missing_ok=True)
        for index in reversed(range(len(names) - 1)):
            if names[index].exists():
                names[index].replace(names[index + 1])
        log.touch()

    def end(self, job: str, attempt: int) -> None:
        (self.directory(job, attempt) / "outcome.json").write_text("{}")


@contextlib.contextmanager
def serve_logs(attempts: AttemptFiles, secret: str | None, *, port: int = 0) -> Iterator[str]:
    """Serve the logs, and yield the address."""
    with serve_routes(routes(attempts.root, lambda: secret), port=port) as address:
        yield address


@contextlib.contextmanager
def serve_routes(routes: Sequence[BaseRoute], *, port: int = 0) -> Iterator[str]:
    """Serve the routes with the server of a node, and yield the address."""
    listener = http.open_listener("127.0.0.1", port)
    server = http.build_server(Starlette(routes=list(routes)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started, 30, "the server is started")
        yield http.listener_url(listener)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
