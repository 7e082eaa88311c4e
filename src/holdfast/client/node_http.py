"""One question to a node over HTTP. Only as much of HTTP as our own nodes speak, and nothing that an interruption waits for."""

import asyncio
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.errors import Unavailable

ANSWER_S = 5.0
BODY_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    """Their names in lower case."""
    body: bytes


async def get(address: str, path: str, *, token: str) -> Reply:
    """Raises Unavailable if the node does not answer, or not in our language."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _get(address, path, token)
    except TimeoutError:
        raise Unavailable(f"the node at {address} does not answer") from None
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        # asyncio puts sentences of its own into strerror.
        number = error.errno if isinstance(error, OSError) else None
        because = os.strerror(number) if number is not None and number > 0 else str(error)
        raise Unavailable(f"the node at {address} does not answer ({because})") from error


async def _get(address: str, path: str, token: str) -> Reply:
    where = urlsplit(address)
    if where.scheme != "http" or where.hostname is None:
        raise ValueError("that is no address of a node")
    reader, writer = await asyncio.open_connection(where.hostname, where.port or 80)
    try:
        lines = (f"GET {path} HTTP/1.1", f"Host: {where.netloc}", f"Authorization: Bearer {token}", "Connection: close")
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        head, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ValueError("its answer is too long")
        return Reply(int(head.split()[1]), headers, await reader.readexactly(size))
    except IndexError:
        raise ValueError("it does not speak HTTP") from None
    finally:
        writer.close()
