"""Requests to nodes with a proxy in the environment: the proxy receives nothing."""

import os
import subprocess
from pathlib import Path

from tests.harness.node_stub import AttemptFiles, serve_logs
from tests.harness.processes import python_command
from tests.harness.recording_proxy import start_proxy

SOURCES = Path(__file__).parents[1] / "src" / "holdfast"

FETCH = """
import sys, urllib.error
from holdfast.direct_http import open_url
try:
    open_url(sys.argv[1], timeout_s=10)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_requests_do_not_use_a_proxy(tmp_path: Path) -> None:
    with start_proxy() as proxy, serve_logs(AttemptFiles(tmp_path), "secret") as address:
        command = python_command(FETCH, f"{address}/v1/jobs/j1/logs")
        environment = os.environ | proxy.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert proxy.requests == []
    assert done.stdout.strip() == "401", done.stderr


def test_no_module_uses_the_proxies_of_the_environment() -> None:
    users = [path.name for path in SOURCES.rglob("*.py") if "urlopen(" in path.read_text() and path.name != "direct_http.py"]
    assert users == [], f"use holdfast.direct_http.open_url in {users}"
