"""Minimal HTTP client for the API of nodes. Requests are coroutines, so an interruption cancels them at once."""

import asyncio
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.errors import Unavailable

ANSWER_S = 5.0
BODY_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NodeResponse:
    status: int
    headers: dict[str, str]
    """Values by lower-case name."""
    body: bytes


async def http_get(address: str, path: str, *, token: str) -> NodeResponse:
    """Send one GET request. Raise Unavailable if the node does not answer or the answer is not valid HTTP."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _get(address, path, token)
    except TimeoutError:
        raise Unavailable(f"the node at {address} does not answer") from None
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        # asyncio replaces strerror by a text of its own.
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number is not None and number > 0 else str(error)
        raise Unavailable(f"the node at {address} does not answer ({reason})") from error


async def _get(address: str, path: str, token: str) -> NodeResponse:
    url = urlsplit(address)
    if url.scheme != "http" or url.hostname is None:
        raise ValueError("the address is not an http address")
    reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    try:
        lines = (f"GET {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: Bearer {token}", "Connection: close")
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        head, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ValueError("its answer is too long")
        return NodeResponse(int(head.split()[1]), headers, await reader.readexactly(size))
    except IndexError:
        raise ValueError("its answer is not HTTP") from None
    finally:
        writer.close()
