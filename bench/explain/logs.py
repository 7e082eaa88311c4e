"""Deterministic test logs: a busy ZooKeeper server, and a Flink TaskManager with many stack traces."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 64 << 20
BLOCK_MS = 600_000
"""Time span of a block, in milliseconds: about 800 one-line records per second."""
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
"""Share of records about sessions. The analysis parses them to align clocks."""
TROUBLE = 0.0005
"""Share of records that are evidence of a fault."""

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
    """Write records of one line each."""
    _write(path, size, _short)


def write_traces(path: Path, size: int) -> None:
    """Write records with stack traces: six of seven lines are frames."""
    _write(path, size, _traces)


def write_report(path: Path) -> None:
    """Write a bug report with quoted log lines."""
    quoted = [line for line in _lines(random.Random(7), 6000, _trouble) if "fsync" in line or "Accepted" in line]
    path.write_text(
        "Writes stood still twice last night, and every job was restarted. This is from the first server:\n\n"
        + "".join(f"    {line}" for line in quoted)
        + "\nThe others look the same. Has anybody seen this?\n"
    )


def split(path: Path, directory: Path, count: int) -> None:
    """Split a file between lines into `count` files."""
    data = path.read_bytes()
    begin = 0
    for number in range(count):
        end = len(data) if number == count - 1 else data.find(b"\n", len(data) * (number + 1) // count) + 1
        (directory / f"{number:05}.log").write_bytes(data[begin:end])
        begin = end


def _write(path: Path, size: int, record: Callable[[random.Random, str], str]) -> None:
    """Write a block of ten minutes, and repeat it with later timestamps up to the size."""
    block = "".join(_lines(random.Random(1), BLOCK_BYTES, record)).encode()
    with path.open("wb") as file:
        for number in range(-(-size // len(block))):
            text = block.replace(FIRST.encode(), f"2026-10-01 {number // 6:02}:{number % 6}".encode())
            file.write(text[: size - file.tell()])


def _lines(rng: random.Random, size: int, record: Callable[[random.Random, str], str]) -> Iterator[str]:
    written = 0
    while written < size:
        ms = min(BLOCK_MS - 1, written * BLOCK_MS // BLOCK_BYTES)
        stamp = f"{FIRST}{ms // 60_000}:{ms // 1000 % 60:02},{ms % 1000:03}"
        line = record(rng, stamp)
        written += len(line)
        yield line


def _fill(rng: random.Random, text: str) -> str:
    return text.format(n=rng.getrandbits(60), k=rng.randrange(1, 65), p=rng.randrange(1000, 65_000))


def _short(rng: random.Random, stamp: str) -> str:
    draw = rng.random()
    message = _FSYNC if draw < TROUBLE else _SESSION if draw < SESSIONS else rng.choice(_ROUTINE)
    return _zookeeper(rng, stamp, "INFO", *message)


def _trouble(rng: random.Random, stamp: str) -> str:
    return _zookeeper(rng, stamp, "WARN", *rng.choice((_FSYNC, _ROUTINE[0], _SESSION)))


def _zookeeper(rng: random.Random, stamp: str, level: str, logger: str, text: str) -> str:
    return f"{stamp} [myid:1] - {level:5} [main:{logger}] - {_fill(rng, text)}\n"


def _traces(rng: random.Random, stamp: str) -> str:
    head = f"{stamp} WARN  org.apache.flink.runtime.taskmanager.Task [] - {_fill(rng, rng.choice(_FLINK))}\n"
    if rng.random() < 0.3:
        return head
    frames = "\n".join(rng.choices(_FRAMES, k=rng.randrange(6, 16)))
    return f"{head}java.lang.IllegalStateException: buffer {rng.getrandbits(30)} is gone\n{frames}\n"
