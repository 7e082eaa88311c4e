"""HTTP client for the promises of other nodes. It uses no proxy and no thread, and keeps its connections open."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from holdfast.clock import Clock
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import Attempt, JobId, NodeId

ANSWER_S = 2.0
BODY_BYTES_MAX = 4 * 1024 * 1024
SINGLE_REQUESTS_MAX = 4
"""Parallel requests to a node of the previous release, which saves each promise on its own."""
PROBE_S = 60.0
"""Interval at which a node of the previous release is asked again for a batch."""


class PeerConnection:
    """Keep-alive connection to one node. One request at a time."""

    def __init__(self, address: str) -> None:
        self._url = urlsplit(address)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, *, token: str) -> tuple[int, bytes]:
        """Send one request. Return the status and the body of the answer. Raises Unavailable."""
        try:
            async with asyncio.timeout(ANSWER_S):
                try:
                    return await self._post(path, body, token)
                except (OSError, EOFError):
                    if self._streams is None:
                        raise
                    self.close()  # the node had closed the idle connection
                    return await self._post(path, body, token)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self.close()
            raise Unavailable(f"the node at {self._url.geturl()} does not answer ({_reason(error)})") from error
        except BaseException:
            self.close()
            raise

    async def _post(self, path: str, body: bytes, token: str) -> tuple[int, bytes]:
        if self._url.scheme != "http" or self._url.hostname is None:
            raise ValueError("its address is not an http address")
        reused = self._streams is not None
        reader, writer = self._streams or await asyncio.open_connection(self._url.hostname, self._url.port or 80)
        self._streams = (reader, writer) if reused else None
        try:
            lines = (f"POST {path} HTTP/1.1", f"Host: {self._url.netloc}", f"Authorization: Bearer {token}")
            head = (*lines, "Content-Type: application/json", f"Content-Length: {len(body)}", "", "")
            writer.write("\r\n".join(head).encode() + body)
            await writer.drain()
            status, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
            size = int(headers.get("content-length", "0"))
            if not 0 <= size <= BODY_BYTES_MAX:
                raise ValueError("its answer is too long")
            answer = await reader.readexactly(size)
        except BaseException:
            if not reused:
                writer.close()
            raise
        self._streams = (reader, writer)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class HttpPromiseTransport:
    def __init__(self, node: NodeId, secret: Callable[[], str | None], clock: Clock) -> None:
        self._node = node
        self._secret = secret
        self._clock = clock
        self._connections: dict[NodeId, tuple[str, PeerConnection]] = {}
        self._probe_at: dict[NodeId, float] = {}
        """Time of the next request for a batch to each node of the previous release."""
        self._single_until: dict[tuple[NodeId, JobId, Attempt], float] = {}
        """Time of the next renewal of each promise of such a node."""

    async def request(self, node: NodeId, address: str, attempts: Mapping[JobId, Attempt], period_s: float) -> dict[JobId, str]:
        if not address:
            raise Unavailable("its address is unknown")
        if self._clock.boottime() >= self._probe_at.get(node, float("-inf")):
            fields = {"node": self._node, "period_s": period_s, "attempts": list(attempts.items())}
            status, answer = await self._post(self._connection(node, address), "/v1/promises/batch", fields)
            if status != 404:
                return _parse_answers(node, attempts, status, answer)
            self._probe_at[node] = self._clock.boottime() + PROBE_S
        return await self._request_singly(node, address, attempts, period_s)

    def _connection(self, node: NodeId, address: str) -> PeerConnection:
        known, connection = self._connections.get(node, ("", None))
        if connection is None or known != address:
            if connection is not None:
                connection.close()
            connection = PeerConnection(address)
            self._connections[node] = address, connection
        return connection

    async def _post(self, connection: PeerConnection, path: str, fields: Mapping[str, Any]) -> tuple[int, bytes]:
        secret = self._secret()
        if not secret:
            raise Unavailable("this node does not know the cluster's secret yet")
        return await connection.post(path, json.dumps(fields).encode(), token=secret)

    async def _request_singly(
        self, node: NodeId, address: str, attempts: Mapping[JobId, Attempt], period_s: float
    ) -> dict[JobId, str]:
        """Request the promises of a node of the previous release that have used up half of their period."""
        now = self._clock.boottime()
        self._single_until = {key: renew_at for key, renew_at in self._single_until.items() if renew_at > now}
        due = [(job, attempt) for job, attempt in attempts.items() if (node, job, attempt) not in self._single_until]
        answers: dict[JobId, str] = {}

        async def request_some(part: Iterable[tuple[JobId, Attempt]]) -> None:
            with contextlib.closing(PeerConnection(address)) as connection:
                for job, attempt in part:
                    fields = {"job": job, "attempt": attempt, "period_s": period_s}
                    status, answer = await self._post(connection, "/v1/promises", fields)
                    answers[job] = "" if status == 200 else answer[:300].decode(errors="replace") or f"it answered {status}"
                    if status == 200:
                        self._single_until[node, job, attempt] = now + period_s / 2

        parts = [due[start::SINGLE_REQUESTS_MAX] for start in range(SINGLE_REQUESTS_MAX)]
        results = await asyncio.gather(*(request_some(part) for part in parts if part), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors and not answers:
            raise errors[0]
        return answers

    def close(self) -> None:
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _parse_answers(node: NodeId, attempts: Mapping[JobId, Attempt], status: int, answer: bytes) -> dict[JobId, str]:
    if status != 200:
        raise Refused(answer[:300].decode(errors="replace") or f"it answered {status}")
    try:
        fields = json.loads(answer)
        refused = {JobId(job): str(reason) or "refused" for job, reason in fields["refused"].items()}
        if fields["node"] != node:
            raise Refused(f"node {fields['node']} answers at its address")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused("its answer is malformed") from None
    return {job: refused.get(job, "") for job in attempts}


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
    try:
        return int(first.split()[1]), headers
    except IndexError:
        raise ValueError("its answer is not HTTP") from None


def _reason(error: Exception) -> str:
    # asyncio replaces strerror by a text of its own.
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, TimeoutError) and number is None:
        return f"no answer within {ANSWER_S:g} s"
    return os.strerror(number) if number is not None and number > 0 else str(error) or type(error).__name__
