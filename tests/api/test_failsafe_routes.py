"""Promises over HTTP: single requests and batches, with real sockets."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.api import failsafe_routes
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.promises import FailsafePromises
from tests.harness.node_stub import serve_routes

SECRET = "0123456789abcdef"


class PromiseApi:
    def __init__(self, address: str, promises: FailsafePromises) -> None:
        self._address = urlsplit(address)
        self.promises = promises

    def post(self, path: str, body: Any, *, secret: str = SECRET) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=30)
        with closing(connection):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, data, {"Authorization": f"Bearer {secret}"})
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[PromiseApi]:
    journal = PromiseJournal(tmp_path / "journal")
    promises = FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(3))
    with serve_routes(failsafe_routes.routes(promises, lambda: SECRET, NodeId("n1"))) as address:
        yield PromiseApi(address, promises)


def test_runner_of_the_previous_release_gets_single_promises(api: PromiseApi) -> None:
    assert api.post("/v1/promises", {"job": "j1", "attempt": 3, "period_s": 10})[0] == 200
    assert api.promises.remaining_s(JobId("j1"), Attempt(4)) > 5
    status, reason = api.post("/v1/promises", {"job": "j1", "attempt": 2, "period_s": 10})
    assert (status, reason) == (409, "attempt 3 was already started on this node")


def test_batch_names_the_node_and_the_refusals(api: PromiseApi) -> None:
    status, answer = api.post("/v1/promises/batch", {"node": "n2", "period_s": 10, "attempts": [["j1", 3], ["j2", 1]]})
    assert status == 200
    assert json.loads(answer) == {"node": "n1", "refused": {"j2": "attempt 3 was already started on this node"}}
    assert api.promises.remaining_s(JobId("j1"), Attempt(4)) > 5
    assert api.promises.remaining_s(JobId("j2"), Attempt(4)) == 0


@pytest.mark.parametrize("path", ["/v1/promises", "/v1/promises/batch"])
def test_wrong_secret_is_refused(api: PromiseApi, path: str) -> None:
    body = {"job": "j1", "attempt": 3, "period_s": 10, "attempts": [["j1", 3]]}
    assert api.post(path, body, secret="guess")[0] == 401
    assert api.promises.remaining_s(JobId("j1"), Attempt(4)) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"noise",
        b"[" * 2000,
        [],
        {"period_s": 10},
        {"period_s": 10, "attempts": [["j1"]]},
        {"period_s": 10, "attempts": {"j1": 3}},
        {"period_s": 10, "attempts": [["../j1", 3]]},
        {"period_s": "x", "attempts": [["j1", 3]]},
        {"period_s": 10, "attempts": [["j1", 1e999]]},
        b" " * (failsafe_routes.BATCH_BYTES_MAX + 1),
    ],
)
def test_malformed_batch_is_refused(api: PromiseApi, body: Any) -> None:
    assert api.post("/v1/promises/batch", body)[0] == 400
