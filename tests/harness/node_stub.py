"""As much of a node as it takes to be asked for logs: the real routes behind the real server, on a thread."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from holdfast.api import app as http
from holdfast.api.log_routes import routes
from tests.harness.waiting import eventually


@dataclass
class Attempts:
    """The attempts of a node, on disk."""

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
        """As a runner does it, the oldest dropped."""
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
def serving(attempts: Attempts, secret: str | None, *, port: int = 0) -> Iterator[str]:
    """Its address."""
    listener = http.listen("127.0.0.1", port)
    server = http.server(Starlette(routes=list(routes(attempts.root, lambda: secret))))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        eventually(lambda: server.started, 30, "it serves")
        yield http.address_of(listener)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
