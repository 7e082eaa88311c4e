"""HTTP client that asks other nodes for failsafe promises."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from holdfast.log import Log
from holdfast.model.identifiers import NodeId
from holdfast.runner.lease import AttemptAssignment

ANSWER_S = 2.0


class HttpFailsafePeers:
    def __init__(self, secret: Callable[[], str], log: Log) -> None:
        self._secret = secret
        self._log = log

    async def request_promises(self, nodes: Mapping[NodeId, str], assignment: AttemptAssignment, period_s: float) -> bool:
        body = json.dumps({"job": assignment.job, "attempt": assignment.attempt, "period_s": period_s}).encode()
        answers = await asyncio.gather(*(asyncio.to_thread(self._ask, address, body) for address in nodes.values()))
        for node, problem in zip(nodes, answers, strict=True):
            if problem:
                self._log.warning("failsafe promise refused", node=node, problem=problem)
        return not any(answers)

    def _ask(self, address: str, body: bytes) -> str:
        """Ask one node. Return an empty string if it has promised, else the problem."""
        request = urllib.request.Request(
            f"{address}/v1/promises",
            data=body,
            headers={"Authorization": f"Bearer {self._secret()}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return "" if answer.status == 200 else f"it answered {answer.status}"
        except urllib.error.HTTPError as error:
            with error:
                return error.read(300).decode(errors="replace") or f"it answered {error.code}"
        except (OSError, ValueError) as error:
            return str(error)
