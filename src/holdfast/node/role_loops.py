"""Loops of a node's two roles: execute orders, and manage all jobs while the node leads.

Both run beside the agent's own loop. Reading a thousand jobs, or waiting for a process to die, therefore never delays the
heartbeat that confirms the node's leadership. Both use a client that refuses all calls until the cluster was verified on the
current connection, so a node never follows an order from an older copy of ZooKeeper's data.
"""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.errors import Conflict, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.leader.loop import Leader, LeaderStats
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.node.order_executor import OrderExecutor
from holdfast.wakeup import Wakeup
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.session.client import ANY_PATH, Client, ConnectionState
from holdfast.zk.session.timing import SteadyContact
from holdfast.zk.session.verified_client import VerifiedClient

MakeLeader = Callable[[Client, Leadership, SteadyContact], Leader]
MakeObserver = Callable[[Client], Observer]


class RoleLoops:
    """Order loop and leader loop of the current session."""

    def __init__(
        self,
        *,
        order_executor: OrderExecutor,
        make_leader: MakeLeader,
        pause_s: float,
        on_leader_change: Callable[[], None],
        log: Log,
        make_observer: MakeObserver | None = None,
    ) -> None:
        """Call `on_leader_change` when the leader loop loses its leadership.

        With `make_observer`, the node that is next in the election observes all jobs, so that it can take over at once.
        """
        self._order_executor = order_executor
        self._make_leader = make_leader
        self._make_observer = make_observer
        self._pause_s = pause_s
        self._on_leader_change = on_leader_change
        self._log = log
        self._client: VerifiedClient | None = None
        self._orders_task: asyncio.Task[None] | None = None
        self._leader_task: asyncio.Task[None] | None = None
        self._leader: Leader | None = None
        self._observer: Observer | None = None
        self._orders_wakeup = Wakeup()
        self._leader_wakeup = Wakeup()

    def on_verified(self, client: VerifiedClient) -> None:
        """Start the order loop of a new session, or wake the loops: the cluster was verified on the current connection."""
        if self._client is not client:
            self._client = client
            self._order_executor.on_watch_events([ANY_PATH])
            self._orders_task = asyncio.ensure_future(self._run_orders_loop(client))
        self._orders_wakeup.wake()
        self._leader_wakeup.wake()

    async def end_session(self) -> None:
        self.stop_leading()
        tasks = [task for task in (self._orders_task, self._leader_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._orders_task = self._leader_task = self._client = self._observer = None

    def on_watch_events(self, fired: set[str]) -> None:
        """Wake both loops after watches fired or the connection changed."""
        self._order_executor.on_watch_events(fired)
        self._orders_wakeup.wake()
        if self._observer is not None:
            self._observer.mark_changed(fired)
            self._leader_wakeup.wake()

    def on_runner_exit(self) -> None:
        self._orders_wakeup.wake()

    # Leading

    def start_leading(self, leadership: Leadership, contact: SteadyContact) -> None:
        """Start leading; do nothing if the leader loop already runs with a leadership."""
        if self._leader is not None or self._client is None:
            return
        self._leader = self._make_leader(self._client, leadership, contact)
        if self._observer is None:
            self._observer = self._leader.observer
        else:
            self._leader.take_over(self._observer)
        self._start_leader_loop(self._client)

    def start_standby(self) -> None:
        """Start to observe all jobs, because this node is next in the election."""
        if self._observer is None and self._client is not None and self._make_observer is not None:
            self._observer = self._make_observer(self._client)
            self._start_leader_loop(self._client)

    def _start_leader_loop(self, client: Client) -> None:
        if self._leader_task is None:
            self._leader_task = asyncio.ensure_future(self._run_loop(client, self._leader_wakeup, self._run_leader_pass))
        self._leader_wakeup.wake()

    @property
    def lost_reason(self) -> str | None:
        """Reason for the loss of leadership, if a write of the leader loop was rejected for it."""
        return self._leader.lost_reason if self._leader is not None else None

    @property
    def leader_stats(self) -> LeaderStats | None:
        """Job counts of the leader or of the node next in the election; None on other nodes."""
        if self._leader is not None:
            return self._leader.stats
        if self._observer is None:
            return None
        jobs, alive = self._observer.count_jobs()
        return LeaderStats(jobs, alive, jobs_read=self._observer.jobs_read)

    def stop_leading(self) -> None:
        """Stop leading. A pass in progress continues, but the epoch check rejects its writes."""
        self._leader = None

    async def _run_leader_pass(self) -> bool:
        if (leader := self._leader) is None:
            if self._observer is not None:
                await self._observer.refresh()
            return False
        done = await leader.run_pass()
        if leader.lost_reason is not None:
            self._on_leader_change()
        return done > 0 and leader.lost_reason is None

    async def _run_orders_loop(self, client: Client) -> None:
        async def run_pass() -> bool:
            await self._order_executor.run_pass(client)
            return False

        await self._run_loop(client, self._orders_wakeup, run_pass)

    async def _run_loop(self, client: Client, wakeup: Wakeup, run_pass: Callable[[], Awaitable[bool]]) -> None:
        """Run passes on every wakeup, and at least every `pause_s` seconds, until the session or the task ends."""
        logged_problem = ""
        while client.state is not ConnectionState.ENDED:
            again = False
            try:
                again = await run_pass()
                logged_problem = ""
            except SessionEnded:
                return
            except (Unavailable, OutcomeUnknown):
                pass
            except (Conflict, Refused) as error:
                if str(error) != logged_problem:
                    self._log.warning("problem", problem=str(error))
                logged_problem = str(error)
            except Exception as error:  # noqa: BLE001 -- a bug in the handling of one job must not end the loop
                self._log.error("internal error", problem=f"{type(error).__name__}: {error}", exc_info=True)
            if not again:
                await wakeup.wait(self._pause_s)
