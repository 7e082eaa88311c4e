"""The Master of a standalone Spark cluster, as a runner sees it: there, or away.

A driver that finds no Master tries for a minute and then gives up. A look beforehand costs milliseconds, and a job whose Master
is away waits without a Java of its own. Other kinds of masters are not looked at: Spark knows best how to reach them.
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


def master_of(spec: Spec) -> str:
    """Empty if the job does not say."""
    return dict(spec.conf).get(MASTER_CONF, "")


def addresses(master: str) -> list[tuple[str, int]]:
    """Where the Masters of `spark://HOST:PORT,HOST:PORT…` are. What is no such URL has none, and Spark says what is wrong."""
    if not master.startswith(_STANDALONE):
        return []
    found = [_ADDRESS.fullmatch(part) for part in master.removeprefix(_STANDALONE).split(",")]
    return [(each["host"].strip("[]"), int(each["port"])) for each in found if each is not None]


async def check_master(spec: Spec) -> None:
    """Raises Unavailable if a job is for a standalone cluster and none of its Masters accepts a connection."""
    places = addresses(master := master_of(spec))
    if places and not any(await asyncio.gather(*(_accepts(host, port) for host, port in places))):
        raise Unavailable(f"the Spark Master is away: nobody answers at {master}")


async def _accepts(host: str, port: int) -> bool:
    with contextlib.suppress(OSError, OverflowError, UnicodeError, TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), ANSWER_S)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True
    return False
