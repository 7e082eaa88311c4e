"""Health of one ZooKeeper server, read with the four-letter words `mntr` and `srvr`.

Latency and fsync times are maxima since the server started: ZooKeeper reports no shorter period.
"""

import re
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Literal

ServerMode = Literal["leader", "follower", "standalone", "observer", "unreachable"]

FSYNC_MS_MAX = 1000
"""ZooKeeper logs a warning above this. Several slow fsyncs in a row make a follower lose its leader."""
ANSWER_BYTES_MAX = 1024 * 1024
_MODES: dict[str, ServerMode] = {
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
    mode: ServerMode
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
    """Query the server. Never raises: a failed query gives mode `unreachable` and the reason in `problems`."""
    deadline = time.monotonic() + timeout_s
    try:
        mntr = send_four_letter_word(host, port, b"mntr", deadline=deadline, context=context)
        # mntr has all figures. srvr is the fallback for servers that do not allow mntr.
        srvr = send_four_letter_word(host, port, b"srvr", deadline=deadline, context=context) if _NOT_LISTED in mntr else ""
    except TimeoutError:
        problem = f"{host}:{port} did not answer within {round(timeout_s, 2):g} s"
        return ServerHealth(id, "unreachable", problems=(problem,))
    except OSError as error:
        return ServerHealth(id, "unreachable", problems=(f"{host}:{port} cannot be reached: {_reason(error)}",))
    return parse_health(id, mntr=mntr, srvr=srvr)


def send_four_letter_word(host: str, port: int, word: bytes, *, deadline: float, context: ssl.SSLContext | None = None) -> str:
    """Send one four-letter word and return the reply. Raises OSError; TimeoutError at `deadline` (of time.monotonic)."""
    with _connect(host, port, deadline, context) as connection:
        connection.sendall(word)
        answer = bytearray()
        while len(answer) < ANSWER_BYTES_MAX:
            connection.settimeout(_remaining_s(deadline))
            piece = connection.recv(65536)
            if not piece:
                break
            answer += piece
    return answer.decode(errors="replace")


def _connect(host: str, port: int, deadline: float, context: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=_remaining_s(deadline))
    if context is None:
        return connection
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def parse_health(id: str, *, mntr: str, srvr: str) -> ServerHealth:
    """Return the health described by the replies. `srvr` is used only if `mntr` has no figures."""
    if _NOT_SERVING in mntr or _NOT_SERVING in srvr:
        problem = "the server runs but does not serve requests: it has no quorum or is still starting"
        return ServerHealth(id, "unreachable", problems=(problem,))
    figures = dict(line.split("\t", 1) for line in mntr.splitlines() if line.startswith("zk_") and "\t" in line)
    if figures:
        return _from_mntr(id, figures)
    return _from_srvr(id, mntr=mntr, srvr=srvr)


def _from_mntr(id: str, figures: dict[str, str]) -> ServerHealth:
    state = figures.get("zk_server_state", "")
    if state not in _MODES:
        return ServerHealth(id, "unreachable", problems=(f"the server is in state '{state}', which does not serve writes",))
    fsync_ms_max = _number(figures.get("zk_max_fsynctime"))
    problems: list[str] = []
    if fsync_ms_max is not None and fsync_ms_max > FSYNC_MS_MAX:
        problems.append(f"the disk is slow: an fsync has taken {fsync_ms_max} ms since the server started")
    members, synced = _number(figures.get("zk_quorum_size")), _number(figures.get("zk_synced_followers"))
    if state == "leader" and members is not None and synced is not None and synced < members - 1:
        problems.append(f"only {synced} of {members - 1} followers are in sync with this leader")
    latency_ms_max = _number(figures.get("zk_max_latency"))
    return ServerHealth(id, _MODES[state], latency_ms_max, fsync_ms_max, tuple(problems))


def _from_srvr(id: str, *, mntr: str, srvr: str) -> ServerHealth:
    mode = re.search(r"^Mode: (\S+)", srvr, re.MULTILINE)
    if mode is None or mode[1] not in _MODES:
        if _NOT_LISTED in mntr:
            problem = "the server allows neither mntr nor srvr: add both to its 4lw.commands.whitelist"
        else:
            problem = "the reply is not from a ZooKeeper server, or the server requires TLS"
        return ServerHealth(id, "unreachable", problems=(problem,))
    latency = re.search(r"^Latency min/avg/max: [^/]*/[^/]*/(\S+)", srvr, re.MULTILINE)
    problem = "fsync times and followers are unknown: add mntr to the server's 4lw.commands.whitelist"
    return ServerHealth(id, _MODES[mode[1]], _number(latency[1] if latency else None), None, (problem,))


def _number(text: str | None) -> int | None:
    try:
        return round(float(text)) if text is not None else None
    except (ValueError, OverflowError):
        return None


def _remaining_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    return error.strerror or str(error)
