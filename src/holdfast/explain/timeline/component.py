"""Who says something: a server, a broker, a JobManager. By what the line names, else by the file it stands in."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from holdfast.explain.event import Event

_NAMED = (
    (re.compile(r"(?:server|ZK|ZooKeeper) ?(\d+)$"), "zookeeper", "zookeeper {}"),
    (re.compile(r"(?:JM|JobManager) ?(\d+)$"), "flink", "jobmanager {}"),
    (re.compile(r"(?:TMs?|TaskManagers?) ?(\d*)$"), "flink", "taskmanager {}"),
    (re.compile(r"(?:Broker|Kafka) ?(\d+)$"), "kafka", "broker {}"),
)
_SYSTEMS = {"kafka-client": "client", "jvm": "client"}


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    kind: str
    """zookeeper, kafka, flink, spark, holdfast; client if only that is known."""


def components(files: tuple[str, ...], events: Iterable[Event]) -> Mapping[tuple[int, int], Component]:
    """(file, offset) of each event → who said it."""
    events = list(events)
    names = _short_names(files)
    owners = {clock: _owner(names[clock[0]], clock[1], said) for clock, said in _by_clock(events).items()}
    return {(event.file, event.offset): _named(event) or owners[event.file, event.format] for event in events}


def _short_names(files: tuple[str, ...]) -> list[str]:
    """What each is called, without its suffix, and with as many of the directories it is in as it takes to tell them apart."""
    parts = [PurePath(file).parts for file in files]
    names = list(files)
    for deep in range(max(map(len, parts), default=0), 0, -1):
        shorter = ["/".join((*of[-deep:-1], of[-1].split(".")[0] or of[-1])) for of in parts]
        often = Counter(shorter)
        names = [new if often[new] == 1 else old for new, old in zip(shorter, names, strict=True)]
    return names


def _by_clock(events: list[Event]) -> dict[tuple[int, str], list[Event]]:
    found: dict[tuple[int, str], list[Event]] = {}
    for event in events:
        found.setdefault((event.file, event.format), []).append(event)
    return found


def _named(event: Event) -> Component | None:
    if event.system == "holdfast" and "phase" in event.fields and event.fields.get("job"):
        return Component(f"job {event.fields.get('name') or event.fields['job']}", "holdfast")
    if event.system == "holdfast" and event.actor:
        return Component(f"node {event.actor}", "holdfast")
    return _called(event.actor)


@functools.lru_cache(maxsize=1024)
def _called(actor: str) -> Component | None:
    for expression, kind, name in _NAMED:
        if match := expression.match(actor.strip()):
            return Component(name.format(match[1]).strip(), kind)
    return None


def _owner(name: str, format: str, events: list[Event]) -> Component:
    """Of lines that name nobody: the broker that registers itself, or what the file is called."""
    systems = Counter(event.system for event in events if event.system not in ("client", "jvm"))
    kind = systems.most_common(1)[0][0] if systems else "client"
    kind = _SYSTEMS.get(kind, kind)
    brokers = {
        event.fields["broker"] for event in events if event.kind == "kafka-registered-again" and "broker" in event.fields
    }
    if kind == "kafka" and len(brokers) == 1:
        return Component(f"broker {brokers.pop()}", kind)
    servers = {event.fields["myid"] for event in events if event.fields.get("myid")}
    if kind == "zookeeper" and len(servers) == 1:
        return Component(f"zookeeper {servers.pop()}", kind)
    return Component(f"{name} ({format})" if format else name, kind)
