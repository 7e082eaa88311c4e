"""Exchange of failsafe promises: this node requests promises from all nodes for its attempts, one batch per node and heartbeat.

The exchange runs all the time and independently of ZooKeeper. The promises are thus in force before an outage begins, and an
agent that is away for a moment costs nothing. All I/O is passed to the constructor, so the simulator runs the same code.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.log import Log
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.node.attempts import AttemptId
from holdfast.node.failsafe.known_peers import KnownPeers
from holdfast.node.failsafe.promises import PERIOD_S_MAX, FailsafePromises
from holdfast.wakeup import Wakeup
from holdfast.zk.session.timing import Timing

REQUEST_HEARTBEATS_MAX = 2
"""Heartbeats after which the request of a runner expires. The promises for a runner that hangs must run out."""

Answers = Mapping[JobId, str]
"""Reason of each refusal; an empty string for a promise."""


class Runners(Protocol):
    """Runners of this node; implemented by `node.failsafe.runner_files.RunnerFiles`."""

    def read_requests(self) -> dict[AttemptId, int]:
        """Return the attempts whose runners have requested promises, each with a number that changes with each request."""

    async def publish(self, granted: Mapping[AttemptId, Mapping[NodeId, float]]) -> None:
        """Publish the end of each node's promise (CLOCK_BOOTTIME) to the runners."""


class PromiseTransport(Protocol):
    """Connection to the other nodes; implemented by `node.failsafe.peer_http.HttpPromiseTransport`."""

    async def request(self, node: NodeId, address: str, attempts: Mapping[JobId, Attempt], period_s: float) -> Answers:
        """Request promises of one node. Jobs without an answer are neither promised nor refused.

        Raises Unavailable or Refused if the node does not answer the request.
        """


class PromiseExchange:
    def __init__(
        self,
        node: NodeId,
        *,
        promises: FailsafePromises,
        runners: Runners,
        peers: KnownPeers,
        transport: PromiseTransport,
        clock: Clock,
        timing: Timing,
        timeout_s: float,
        log: Log,
    ) -> None:
        """Exchange promises that last for the session timeout `timeout_s` plus the margin.

        A longer promise would delay the next attempt after the loss of this machine.
        """
        self._node = node
        self._promises = promises
        self._runners = runners
        self._peers = peers
        self._transport = transport
        self._clock = clock
        self._timing = timing
        self._period_s = min(timeout_s + timing.margin_s, PERIOD_S_MAX)
        self._log = log
        self._requests: dict[AttemptId, tuple[int, float]] = {}
        """Last request of each runner, and when it was first seen."""
        self._granted: dict[AttemptId, dict[NodeId, float]] = {}
        self._exchanges: dict[NodeId, asyncio.Task[None]] = {}
        """Exchanges that wait for an answer. A node that is slow to answer delays no other node."""
        self._all_answered = Wakeup()
        self._problems: dict[NodeId, str] = {}

    async def run(self) -> None:
        """Exchange promises until the task is cancelled."""
        while True:
            next_at = self._clock.boottime() + self._timing.heartbeat_s
            try:
                await self._run_pass()
            except Exception as error:  # noqa: BLE001 -- a bug must not end the exchange: every driver depends on it
                self._log.error("internal error", problem=f"{type(error).__name__}: {error}", exc_info=True)
            await asyncio.sleep(max(self._timing.heartbeat_s / 10, next_at - self._clock.boottime()))

    async def _run_pass(self) -> None:
        attempts = self._read_attempts()
        self._granted = {attempt_id: self._granted.get(attempt_id, {}) for attempt_id in attempts}
        if not attempts:
            return
        for node in (self._node, *self._peers.addresses):
            if node not in self._exchanges:
                self._exchanges[node] = asyncio.ensure_future(self._exchange(node, attempts))
        await self._wait_for_answers(self._timing.heartbeat_s / 2)
        await self._runners.publish(self._granted)

    async def _wait_for_answers(self, timeout_s: float) -> None:
        give_up_at = self._clock.boottime() + timeout_s
        while self._exchanges and (left_s := give_up_at - self._clock.boottime()) > 0:
            await self._all_answered.wait(left_s)

    def _read_attempts(self) -> list[AttemptId]:
        """Return the attempts whose runners have requested promises recently."""
        now = self._clock.boottime()
        known, self._requests = self._requests, {}
        for attempt_id, number in self._runners.read_requests().items():
            last = known.get(attempt_id)
            self._requests[attempt_id] = last if last is not None and last[0] == number else (number, now)
        oldest = now - REQUEST_HEARTBEATS_MAX * self._timing.heartbeat_s
        return sorted(attempt_id for attempt_id, (_, seen_at) in self._requests.items() if seen_at >= oldest)

    async def _exchange(self, node: NodeId, attempts: list[AttemptId]) -> None:
        sent_at = self._clock.boottime()
        try:
            answers = await self._request(node, {each.job: each.attempt for each in attempts})
        except HoldfastError as error:
            self._peers.mark_outdated()
            self._report(node, str(error))
        else:
            self._record(node, attempts, answers, until=sent_at + self._period_s)
            self._report(node, next((reason for reason in answers.values() if reason), ""))
        finally:
            self._exchanges.pop(node, None)
            if not self._exchanges:
                self._all_answered.wake()

    async def _request(self, node: NodeId, attempts: Mapping[JobId, Attempt]) -> Answers:
        if node == self._node:
            return dict.fromkeys(attempts, "") | await self._promises.grant_all(attempts, self._period_s)
        return await self._transport.request(node, self._peers.addresses.get(node, ""), attempts, self._period_s)

    def _record(self, node: NodeId, attempts: list[AttemptId], answers: Answers, *, until: float) -> None:
        """Record the promises. They count from the time at which the request was *sent*: the answer may have been delayed."""
        for attempt_id in attempts:
            if answers.get(attempt_id.job) == "" and attempt_id in self._granted:
                self._granted[attempt_id][node] = until

    def _report(self, node: NodeId, problem: str) -> None:
        """Log a problem when it begins, changes or ends. It may last for many heartbeats."""
        if problem and problem != self._problems.get(node):
            self._log.warning("failsafe promise refused", peer=node, problem=problem)
        elif not problem and node in self._problems:
            self._log.info("failsafe promises received again", peer=node)
        if problem:
            self._problems[node] = problem
        else:
            self._problems.pop(node, None)
