"""SIGTERM of a driver whose queries run in a separate Spark Connect server."""

import os
import signal
import subprocess
import sys

from tests.harness.drivers import SRC

PROGRAM = """
import os, signal, sys
from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.stop_request import StopRequest
from holdfast.driver.termination import TerminationHandler

class Query:
    name, id, isActive = "clicks", "id", True

queries, stop = ActiveQueries(), StopRequest("")
queries.add(Query())
TerminationHandler(queries, stop).install()
if "requested" in sys.argv:
    stop.request()
os.kill(os.getpid(), signal.SIGTERM)
print("requested", stop.requested, "urgent", stop.urgent, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def run(*arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout.strip() or ended.stderr


def test_first_sigterm_requests_a_stop_after_the_batch() -> None:
    assert run() == (-signal.SIGTERM, "requested True urgent False")


def test_sigterm_after_a_stop_request_stops_queries_that_would_outlive_the_driver() -> None:
    assert run("requested") == (-signal.SIGTERM, "requested True urgent True")
