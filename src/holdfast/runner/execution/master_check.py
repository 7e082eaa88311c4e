"""Check that the Master of a standalone Spark cluster, or YARN's ResourceManager, is reachable before a driver is started.

A driver without a Master tries for a minute and then gives up, without a ResourceManager for a quarter of an hour. The check
takes milliseconds, so a job whose cluster is unreachable waits without a JVM. Other kinds of masters are not checked: only
Spark knows how to reach them.
"""

import asyncio
import contextlib
import re
from collections.abc import Mapping

from holdfast.errors import Unavailable
from holdfast.model.job import Spec
from holdfast.runner.yarn.hadoop_configuration import read_hadoop_configuration, resource_manager_addresses

MASTER_CONF = "spark.master"
ANSWER_S = 5.0
YARN = "yarn"
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


async def check_master(spec: Spec, environ: Mapping[str, str]) -> None:
    """Raise Unavailable if the job names a standalone cluster or YARN, and no Master accepts a connection.

    `environ` is the environment of the node, which names the configuration of YARN.
    """
    if (master := spark_master(spec)) == YARN:
        properties = await asyncio.to_thread(read_hadoop_configuration, environ, dict(spec.conf))
        addresses = resource_manager_addresses(properties)
        if not await _any_accepts(addresses):
            named = ", ".join(f"{host}:{port}" for host, port in addresses) or "the address in HADOOP_CONF_DIR"
            raise Unavailable(f"YARN is unreachable: no ResourceManager answers at {named}")
    elif (addresses := master_addresses(master)) and not await _any_accepts(addresses):
        raise Unavailable(f"the Spark Master is unreachable: no Master answers at {master}")


async def _any_accepts(addresses: list[tuple[str, int]]) -> bool:
    return any(await asyncio.gather(*(_accepts(host, port) for host, port in addresses)))


async def _accepts(host: str, port: int) -> bool:
    with contextlib.suppress(OSError, OverflowError, UnicodeError, TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), ANSWER_S)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True
    return False
