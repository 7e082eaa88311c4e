"""Topics of the queries that read from or write to Kafka. Their names are stored in the folders of the scene."""

import json
import secrets
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.scene import step_rows

TIMEOUT_S = 60.0


class InputTopic(NamedTuple):
    bootstrap: str
    name: str

    def add_step(self, step: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0})
        for row in step_rows(step):
            producer.produce(self.name, json.dumps(row).encode())
        assert producer.flush(TIMEOUT_S) == 0


def open_topic(bootstrap: str, folder: Path) -> InputTopic:
    """Return the topic of an input folder. The first call creates it."""
    file = folder / ".topic"
    if not file.exists():
        topic = InputTopic(bootstrap, create_topic(bootstrap))
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(topic._asdict()))
    return read_topic(folder)


def read_topic(folder: Path) -> InputTopic:
    return InputTopic(**json.loads((folder / ".topic").read_text()))


def create_topic(bootstrap: str) -> str:
    """Create a topic with one partition and return its name."""
    name = f"oracle-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    return name
