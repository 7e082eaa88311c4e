"""Check that the Master of a standalone Spark cluster is reachable, before a driver is started.

A driver without a Master tries for a minute and then gives up. The check takes milliseconds, so a job whose Master is
unreachable waits without a JVM. Other kinds of masters are not checked: only Spark knows how to reach them.
"""

import asyncio
import contextlib
import re

from holdfast.errors import Unavailable
from holdfast.model.job import Spec

MASTER_CONF = "spark.master"
ANSWER_S = 5.0
_STANDALONE = "spark://"
_ADDRESS = re.compile(r"(?P<host>[^:/\s]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def spark_master(spec: Spec) -> str:
    """Return the master URL that the job names, or an empty string."""
    return dict(spec.conf).get(MASTER_CONF, "")


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Return host and port of each Master in `spark://HOST:PORT,HOST:PORT…`. Empty for any other URL."""
    if not master.startswith(_STANDALONE):
        return []
    matches = [_ADDRESS.fullmatch(part) for part in master.removeprefix(_STANDALONE).split(",")]
    return [(match["host"].strip("[]"), int(match["port"])) for match in matches if match is not None]


async def check_master(spec: Spec) -> None:
    """Raise Unavailable if the job names a standalone cluster and none of its Masters accepts a connection."""
    addresses = master_addresses(master := spark_master(spec))
    if addresses and not any(await asyncio.gather(*(_accepts(host, port) for host, port in addresses))):
        raise Unavailable(f"the Spark Master is unreachable: no Master answers at {master}")


async def _accepts(host: str, port: int) -> bool:
    with contextlib.suppress(OSError, OverflowError, UnicodeError, TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), ANSWER_S)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True
    return False
