"""Logs to measure with: as a busy ZooKeeper server and a Flink manager in trouble write them, and the same bytes each time."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 64 << 20
BLOCK_MS = 600_000
"""What a block covers: eight hundred records of one line a second."""
FIRST = "2026-10-01 00:0"

_ROUTINE = (
    ("NIOServerCnxnFactory@213", "Accepted socket connection from /10.0.{k}.7:{p}"),
    ("ZooKeeperServer@1032", "Client attempting to establish new session at /10.0.{k}.7:{p}"),
    ("ZooKeeperServer@1025", "Client attempting to renew session 0x{n:x} at /10.0.{k}.7:{p}"),
    ("NIOServerCnxn@627", "Closed socket connection for client /10.0.{k}.7:{p} which had sessionid 0x{n:x}"),
    ("NIOServerCnxn@627", "Closed socket connection for client /10.0.{k}.7:{p} (no session established for client)"),
    ("PrepRequestProcessor@614", "Processed session termination for sessionid: 0x{n:x}"),
    ("PrepRequestProcessor@935", "Got user-level KeeperException, sessionid:0x{n:x} type:create cxid:0x{k:x} Error:NodeExists"),
    ("NIOServerCnxn@376", "Unable to read additional data from client sessionid 0x{n:x}, likely client has closed socket"),
    ("FileTxnSnapLog@479", "Snapshotting: 0x{n:x} to /data/version-2/snapshot.{n:x}"),
    ("FileTxnLog@284", "Creating new log file: log.{n:x}"),
    ("FileSnap@85", "Reading snapshot /data/version-2/snapshot.{n:x}"),
    ("DatadirCleanupManager@137", "Purge task started."),
    ("DatadirCleanupManager@145", "Purge task completed."),
    ("FastLeaderElection@697", "Notification: n.sid:{k}, n.state:FOLLOWING, n.leader:2, n.zxid:0x{n:x}"),
    ("LearnerHandler@458", "Synchronizing with Follower sid: {k} maxCommittedLog=0x{n:x} peerLastZxid=0x{n:x}"),
    ("LearnerHandler@522", "Received NEWLEADER-ACK message from {k}"),
    ("QuorumCnxManager@844", "Received connection request from /10.0.{k}.7:{p}"),
    ("ZooKeeperServer@868", "Revalidating client: 0x{n:x}"),
    ("NettyServerCnxn@410", "Processing mntr command from /10.0.{k}.7:{p}"),
    ("RequestThrottler@280", "Dropped {k} requests that were older than {p} ms"),
)
_SESSION = "ZooKeeperServer@744", "Established session 0x{n:x} with negotiated timeout 10000 for client /10.0.{k}.7:{p}"
_FSYNC = (
    "FileTxnLog@338",
    "fsync-ing the write ahead log in SyncThread:1 took {p}ms which will adversely affect operation latency.",
)
SESSIONS = 0.005
"""The share of records that are read closely because sessions set clocks right."""
TROUBLE = 0.0005
"""The share of those that are evidence of something."""

_FLINK = (
    "Source: clicks -> Sink: Parquet ({k}/64) ({n:032x}) switched from RUNNING to FAILED on tm-{k}.",
    "Exception in the operator clicks-{k}, record {n}",
    "Could not complete snapshot {n} for operator Window(TumblingEventTimeWindows({p})) ({k}/64).",
    "Association with remote system [tcp://flink@10.0.{k}.7:{p}] has failed, address is now gated for [50] ms.",
)
_FRAMES = tuple(
    f"\tat org.apache.flink.{package}.{name}.{method}({name}.java:{line})"
    for package in ("runtime.taskmanager", "streaming.api.operators", "runtime.io.network", "shaded.netty4.io.netty.channel")
    for name in ("Task", "StreamTask", "AbstractChannelHandlerContext", "SubtaskCheckpointCoordinatorImpl")
    for method, line in (("run", 77), ("invokeChannelRead", 365), ("processInput", 1204), ("snapshotState", 260))
)


def write_short(path: Path, size: int) -> None:
    """Records of one line each."""
    _write(path, size, _short)


def write_traces(path: Path, size: int) -> None:
    """Records of which most have a stack trace: six lines of seven are frames."""
    _write(path, size, _traces)


def write_report(path: Path) -> None:
    """What somebody pastes into a ticket."""
    quoted = [line for line in _lines(random.Random(7), 6000, _trouble) if "fsync" in line or "Accepted" in line]
    path.write_text(
        "Writes stood still twice last night, and every job was restarted. This is from the first server:\n\n"
        + "".join(f"    {line}" for line in quoted)
        + "\nThe others look the same. Has anybody seen this?\n"
    )


def split(path: Path, directory: Path, count: int) -> None:
    """The same bytes in many files, cut between lines."""
    data = path.read_bytes()
    begin = 0
    for number in range(count):
        end = len(data) if number == count - 1 else data.find(b"\n", len(data) * (number + 1) // count) + 1
        (directory / f"{number:05}.log").write_bytes(data[begin:end])
        begin = end


def _write(path: Path, size: int, record: Callable[[random.Random, str], str]) -> None:
    """A block of ten minutes, and then the same of those that follow."""
    block = "".join(_lines(random.Random(1), BLOCK_BYTES, record)).encode()
    with path.open("wb") as file:
        for number in range(-(-size // len(block))):
            text = block.replace(FIRST.encode(), f"2026-10-01 {number // 6:02}:{number % 6}".encode())
            file.write(text[: size - file.tell()])


def _lines(chance: random.Random, size: int, record: Callable[[random.Random, str], str]) -> Iterator[str]:
    written = 0
    while written < size:
        ms = min(BLOCK_MS - 1, written * BLOCK_MS // BLOCK_BYTES)
        stamp = f"{FIRST}{ms // 60_000}:{ms // 1000 % 60:02},{ms % 1000:03}"
        line = record(chance, stamp)
        written += len(line)
        yield line


def _filled(chance: random.Random, text: str) -> str:
    return text.format(n=chance.getrandbits(60), k=chance.randrange(1, 65), p=chance.randrange(1000, 65_000))


def _short(chance: random.Random, stamp: str) -> str:
    draw = chance.random()
    said = _FSYNC if draw < TROUBLE else _SESSION if draw < SESSIONS else chance.choice(_ROUTINE)
    return _zookeeper(chance, stamp, "INFO", *said)


def _trouble(chance: random.Random, stamp: str) -> str:
    return _zookeeper(chance, stamp, "WARN", *chance.choice((_FSYNC, _ROUTINE[0], _SESSION)))


def _zookeeper(chance: random.Random, stamp: str, level: str, logger: str, text: str) -> str:
    return f"{stamp} [myid:1] - {level:5} [main:{logger}] - {_filled(chance, text)}\n"


def _traces(chance: random.Random, stamp: str) -> str:
    head = f"{stamp} WARN  org.apache.flink.runtime.taskmanager.Task [] - {_filled(chance, chance.choice(_FLINK))}\n"
    if chance.random() < 0.3:
        return head
    frames = "\n".join(chance.choices(_FRAMES, k=chance.randrange(6, 16)))
    return f"{head}java.lang.IllegalStateException: buffer {chance.getrandbits(30)} is gone\n{frames}\n"
