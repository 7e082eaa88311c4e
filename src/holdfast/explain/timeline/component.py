"""Component that wrote a line: a server, a broker, a JobManager. Known from the line itself, or from its file."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from holdfast.explain.event import LogEvent

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
    """zookeeper, kafka, flink, spark, holdfast, or client if nothing else is known."""


def assign_components(files: tuple[str, ...], events: Iterable[LogEvent]) -> Mapping[tuple[int, int], Component]:
    """Return the component of each event, by the file and the offset of the event."""
    events = list(events)
    names = _short_names(files)
    defaults = {clock: _default_component(names[clock[0]], clock[1], group) for clock, group in _by_clock(events).items()}
    return {(event.file, event.offset): _named_component(event) or defaults[event.file, event.format] for event in events}


def _short_names(files: tuple[str, ...]) -> list[str]:
    """Return file names without suffix, with as many parent directories as are needed to distinguish them."""
    parts = [PurePath(file).parts for file in files]
    names = list(files)
    for depth in range(max(map(len, parts), default=0), 0, -1):
        shorter = ["/".join((*one[-depth:-1], one[-1].split(".")[0] or one[-1])) for one in parts]
        uses = Counter(shorter)
        names = [new if uses[new] == 1 else old for new, old in zip(shorter, names, strict=True)]
    return names


def _by_clock(events: list[LogEvent]) -> dict[tuple[int, str], list[LogEvent]]:
    groups: dict[tuple[int, str], list[LogEvent]] = {}
    for event in events:
        groups.setdefault((event.file, event.format), []).append(event)
    return groups


def _named_component(event: LogEvent) -> Component | None:
    """Return the component that the line itself names."""
    if event.system == "holdfast" and "phase" in event.fields and event.fields.get("job"):
        return Component(f"job {event.fields.get('name') or event.fields['job']}", "holdfast")
    if event.system == "holdfast" and event.actor:
        return Component(f"node {event.actor}", "holdfast")
    return _by_actor(event.actor)


@functools.lru_cache(maxsize=1024)
def _by_actor(actor: str) -> Component | None:
    for expression, kind, name in _NAMED:
        if match := expression.match(actor.strip()):
            return Component(name.format(match[1]).strip(), kind)
    return None


def _default_component(name: str, format: str, events: list[LogEvent]) -> Component:
    """Return the component of lines that name none: the broker or server of the file, or the name of the file."""
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
