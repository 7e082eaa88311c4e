"""Inputs of the programs: folders of files, a Kafka topic, a TCP server."""

import json
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer

from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until
from tests.programs.event_data import Phase
from tests.programs.rows import Row

CONNECT_S = 240.0


class ProgramInput(Protocol):
    """Input that grows by one phase at a time."""

    rows: dict[str, list[Row]]
    """All rows so far, by the option that names their source."""

    def arguments(self) -> list[str]:
        """Return the arguments of the script."""

    def add_phase(self) -> None:
        """Add the rows of the next phase."""


class FileInput:
    """Folders of numbered files, which Spark reads in the order of their modification times."""

    def __init__(self, directory: Path, generate: Callable[[int], Phase]) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._directory = directory
        self._generate = generate
        self._phases = 0
        self._files = 0
        self._start_s = int(time.time()) - 36_000
        for option in generate(0):
            self._folder(option).mkdir(parents=True)

    def arguments(self) -> list[str]:
        return [text for option in self._generate(0) for text in (f"--{option}", str(self._folder(option)))]

    def add_phase(self) -> None:
        for option, files in self._generate(self._phases).items():
            for rows in files:
                self._write_file(self._folder(option), rows)
                self.rows[option] += rows
        self._phases += 1

    def _folder(self, option: str) -> Path:
        return self._directory / option

    def _write_file(self, folder: Path, rows: list[Row]) -> None:
        self._files += 1
        temporary = folder / f".{self._files}"
        temporary.write_text("".join(f"{row['value'] if 'value' in row else json.dumps(row)}\n" for row in rows))
        os.utime(temporary, (self._start_s + self._files,) * 2)
        temporary.rename(folder / f"{self._files:06d}.json")


class KafkaInput:
    """Topic of one partition with lines of words."""

    def __init__(self, brokers: Brokers, generate: Callable[[int], Phase]) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._generate = generate
        self._phases = 0
        self._topic = Topic(brokers)
        self._topic.create([1])

    def arguments(self) -> list[str]:
        return ["--servers", self._topic.bootstrap, "--topic", self._topic.name]

    def add_phase(self) -> None:
        producer = Producer({"bootstrap.servers": self._topic.bootstrap, "acks": "all", "log_level": 0})
        for rows in self._generate(self._phases)["input"]:
            for row in rows:
                producer.produce(self._topic.name, row["value"].encode())
            self.rows["input"] += rows
        assert producer.flush(SETTLE_S) == 0, "the broker acknowledges all records"
        self._phases += 1


class SocketInput:
    """TCP server that sends lines of words. `rows` has the lines sent to the newest connection."""

    def __init__(self, generate: Callable[[int], Phase]) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._generate = generate
        self._phases = 0
        self._accepted: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, name="socket-input", daemon=True)

    def __enter__(self) -> "SocketInput":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for connection in (self._server, *self._accepted):
            connection.close()

    def arguments(self) -> list[str]:
        host, port = self._server.getsockname()
        return ["--host", host, "--port", str(port)]

    @property
    def connections(self) -> int:
        """Number of connections that were accepted so far."""
        return len(self._accepted)

    def wait_for_connection(self, after: int) -> None:
        """Wait for one more connection than `after`. Lines sent to earlier connections do not count any more."""
        wait_until(lambda: self.connections > after, CONNECT_S, f"connection {after + 1}")
        self.rows.clear()

    def add_phase(self) -> None:
        """Send the lines of the next phase to the newest connection."""
        for rows in self._generate(self._phases)["input"]:
            self._accepted[-1].sendall("".join(f"{row['value']}\n" for row in rows).encode())
            self.rows["input"] += rows
        self._phases += 1

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # the server was shut down
            self._accepted.append(connection)
