"""How one ZooKeeper server is, by its own account: the four letter words `mntr` and `srvr`, read over a socket.

Latency and fsync times are the worst since that server started: ZooKeeper keeps nothing shorter.
"""

import re
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Literal

Mode = Literal["leader", "follower", "standalone", "observer", "unreachable"]

FSYNC_MS_MAX = 1000
"""Slower than this, ZooKeeper itself warns. A few of them in a row cost a follower its place."""
ANSWER_BYTES_MAX = 1024 * 1024
_MODES: dict[str, Mode] = {
    "leader": "leader",
    "follower": "follower",
    "standalone": "standalone",
    "observer": "observer",
}
_NOT_SERVING = "not currently serving requests"
_NOT_LISTED = "not in the whitelist"


@dataclass(frozen=True, slots=True)
class ServerHealth:
    id: str
    mode: Mode
    latency_ms_max: int | None = None
    fsync_ms_max: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def serving(self) -> bool:
        return self.mode != "unreachable"


def read_health(
    id: str,
    host: str,
    port: int,
    *,
    timeout_s: float,
    context: ssl.SSLContext | None = None,
) -> ServerHealth:
    """Ask the server. Never raises: a server that cannot be asked is unreachable, and its problems say why."""
    deadline = time.monotonic() + timeout_s
    try:
        mntr = ask(host, port, b"mntr", deadline=deadline, context=context)
        # Everything is in mntr. srvr is for servers whose owner did not whitelist it.
        srvr = ask(host, port, b"srvr", deadline=deadline, context=context) if _NOT_LISTED in mntr else ""
    except TimeoutError:
        problem = f"{host}:{port} gave no answer within {round(timeout_s, 2):g} s"
        return ServerHealth(id, "unreachable", problems=(problem,))
    except OSError as error:
        return ServerHealth(id, "unreachable", problems=(f"{host}:{port} cannot be reached: {_reason(error)}",))
    return parse(id, mntr=mntr, srvr=srvr)


def ask(host: str, port: int, word: bytes, *, deadline: float, context: ssl.SSLContext | None = None) -> str:
    """The answer to one four letter word. Raises OSError, of which TimeoutError at the deadline (on time.monotonic)."""
    with _connect(host, port, deadline, context) as connection:
        connection.sendall(word)
        answer = bytearray()
        while len(answer) < ANSWER_BYTES_MAX:
            connection.settimeout(_left_s(deadline))
            piece = connection.recv(65536)
            if not piece:
                break
            answer += piece
    return answer.decode(errors="replace")


def _connect(host: str, port: int, deadline: float, context: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=_left_s(deadline))
    if context is None:
        return connection
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def parse(id: str, *, mntr: str, srvr: str) -> ServerHealth:
    """What the answers mean. Pure. `srvr` only counts where `mntr` was not answered."""
    if _NOT_SERVING in mntr or _NOT_SERVING in srvr:
        problem = "it runs but serves no requests: it has no quorum, or is still starting"
        return ServerHealth(id, "unreachable", problems=(problem,))
    figures = dict(line.split("\t", 1) for line in mntr.splitlines() if line.startswith("zk_") and "\t" in line)
    if figures:
        return _from_mntr(id, figures)
    return _from_srvr(id, mntr=mntr, srvr=srvr)


def _from_mntr(id: str, figures: dict[str, str]) -> ServerHealth:
    state = figures.get("zk_server_state", "")
    if state not in _MODES:
        return ServerHealth(id, "unreachable", problems=(f"it says that it is '{state}', and serves no writes",))
    fsync_ms_max = _number(figures.get("zk_max_fsynctime"))
    problems: list[str] = []
    if fsync_ms_max is not None and fsync_ms_max > FSYNC_MS_MAX:
        problems.append(f"its disk is slow: since it started, an fsync took {fsync_ms_max} ms")
    members, synced = _number(figures.get("zk_quorum_size")), _number(figures.get("zk_synced_followers"))
    if state == "leader" and members is not None and synced is not None and synced < members - 1:
        problems.append(f"only {synced} of its {members - 1} followers are in sync with it")
    latency_ms_max = _number(figures.get("zk_max_latency"))
    return ServerHealth(id, _MODES[state], latency_ms_max, fsync_ms_max, tuple(problems))


def _from_srvr(id: str, *, mntr: str, srvr: str) -> ServerHealth:
    mode = re.search(r"^Mode: (\S+)", srvr, re.MULTILINE)
    if mode is None or mode[1] not in _MODES:
        if _NOT_LISTED in mntr:
            problem = "it answers neither mntr nor srvr: add both to its 4lw.commands.whitelist"
        else:
            problem = "what answers there is not a ZooKeeper server, or it wants TLS"
        return ServerHealth(id, "unreachable", problems=(problem,))
    latency = re.search(r"^Latency min/avg/max: [^/]*/[^/]*/(\S+)", srvr, re.MULTILINE)
    problem = "its disk and its followers cannot be watched: add mntr to its 4lw.commands.whitelist"
    return ServerHealth(id, _MODES[mode[1]], _number(latency[1] if latency else None), None, (problem,))


def _number(text: str | None) -> int | None:
    try:
        return round(float(text)) if text is not None else None
    except (ValueError, OverflowError):
        return None


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    return error.strerror or str(error)
