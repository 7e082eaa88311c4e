"""ZooKeeper servers, all of ZooKeeper, and whole machines are lost, with real Spark drivers."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.harness.cluster.jobs import Jobs, until
from tests.harness.cluster.machines import MARGIN_S, SESSION_TIMEOUT_S, SYNC_LIMIT, TICK_S, Machine, Servers, connected_to
from tests.harness.cluster.process_witness import Life, Sightings, sweep
from tests.harness.cluster.streams import Feeder, Stream, output_of
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Standing:
    """What must not change."""

    leader: tuple[str | None, int]
    drivers: list[Life]
    attempts: list[tuple[int, int]]


@dataclass
class Scene:
    """Three servers, two nodes, and a streaming job on each of them."""

    servers: Servers
    machines: dict[str, Machine]
    jobs: Jobs
    feeder: Feeder
    streams: tuple[Stream, Stream]

    def well(self) -> None:
        for machine in self.machines.values():
            machine.start()
        until(lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 90, "two nodes and a leader")
        for stream in self.streams:
            stream.well()

    def standing(self) -> Standing:
        views = [stream.view for stream in self.streams]
        return Standing(
            leader=self.jobs.leader(),
            drivers=[stream.attempt().driver for stream in self.streams],
            attempts=[(view["attempt"], view["restarts"]) for view in views],
        )

    def advance(self, batches: int = 2) -> None:
        for stream in self.streams:
            stream.advances(batches)

    def sessions(self) -> list[int]:
        """The processes that everything depends on: agents and runners."""
        agents = [machine.node.agent_pid() for machine in self.machines.values() if machine.node is not None]
        return [pid for pid in agents if pid is not None] + [stream.attempt().runner for stream in self.streams]

    def check(self) -> None:
        for stream in self.streams:
            stream.check_alone()
            stream.check_contiguous()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("outages")
    storage = directory / "storage"
    storage.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(sweep, directory)
        servers = stack.enter_context(Servers(directory))
        machines = {
            id: stack.enter_context(Machine(id, directory / id, servers.connect, cluster="outages", storage=storage))
            for id in ("n1", "n2")
        }
        eventually(lambda: all(m.node and m.node.status().get("registered") for m in machines.values()), 60, "both have joined")
        seen = stack.enter_context(Sightings(directory))
        feeder = stack.enter_context(Feeder(directory / "in"))
        jobs = stack.enter_context(Jobs(directory, storage, "--connect", servers.connect, "--cluster", "outages"))
        streams = (Stream(jobs, seen, feeder, "first"), Stream(jobs, seen, feeder, "second"))
        yield Scene(servers, machines, jobs, feeder, streams)


@pytest.fixture
def scene(cluster: Scene) -> Iterator[Scene]:
    cluster.well()
    yield cluster
    cluster.check()


def test_nothing_moves_while_every_zookeeper_server_is_restarted(scene: Scene) -> None:
    before = scene.standing()
    for server in scene.servers.servers.values():
        server.kill()
        scene.advance(1)
        scene.servers.start()
    scene.advance()
    scene.well()
    assert scene.standing() == before


def test_nothing_moves_while_a_follower_is_cut_off_with_its_clients(scene: Scene) -> None:
    before = scene.standing()
    follower, leader = _follower_with_clients(scene), scene.servers.leader()
    port = scene.servers.servers[follower].client_port
    clients = [pid for pid in scene.sessions() if port in connected_to(pid)]
    assert clients
    with scene.servers.links[follower, leader].silent():
        cut_at = time.monotonic()
        until(lambda: scene.servers.modes()[follower] != "follower", 60, "the follower has noticed")
        assert time.monotonic() - cut_at > SYNC_LIMIT * TICK_S / 2, "for a while it answered, and knew nothing new"
        until(lambda: all(connected_to(pid) - {port} for pid in clients), 30, "its clients have gone elsewhere")
        until(lambda: time.monotonic() > cut_at + SESSION_TIMEOUT_S + 2 * TICK_S, 60, "a session would have ended by now")
        scene.advance()
    scene.servers.start()
    scene.advance()
    scene.well()
    assert scene.standing() == before


def _follower_with_clients(scene: Scene) -> int:
    """If every session is with the leader, that one is restarted, and they are not any more."""
    for _ in range(5):
        modes = scene.servers.modes()
        for id, server in scene.servers.servers.items():
            if modes[id] == "follower" and any(server.client_port in connected_to(pid) for pid in scene.sessions()):
                return id
        scene.servers.servers[scene.servers.leader()].kill()
        scene.servers.start()
    raise AssertionError("no session is ever with a follower")


def test_drivers_go_on_without_zookeeper_for_three_session_timeouts(scene: Scene) -> None:
    before = scene.standing()
    with scene.servers.away():
        until_at = time.monotonic() + 3 * SESSION_TIMEOUT_S
        while time.monotonic() < until_at:
            scene.advance(1)
        assert [stream.attempt().driver for stream in scene.streams] == before.drivers
    scene.well()
    scene.advance()
    scene.well()
    after = scene.standing()
    assert (after.drivers, after.attempts) == (before.drivers, before.attempts)


def test_drivers_end_if_a_node_cannot_promise_and_run_again_when_zookeeper_is_back(
    scene: Scene, report: Callable[[str], None]
) -> None:
    """By themselves: nobody can tell them to. That it is in time is seen in the simulator, whose clock nobody disturbs."""
    before = scene.standing()
    scene.machines["n2"].lose_agent()  # its session outlives it for a while, so it is still one of those who must promise
    with scene.servers.away():
        away_at = time.monotonic()
        for stream, driver in zip(scene.streams, before.drivers, strict=True):
            gone_at = stream.gone(driver)
            report(f"outages: without ZooKeeper and promises, a driver was gone after {gone_at - away_at:.1f} s")
    for stream, driver in zip(scene.streams, before.drivers, strict=True):
        stream.next_driver(driver)
        assert stream.well()["node"] == "n1"
        stream.advances(1)


def test_jobs_of_a_lost_machine_run_elsewhere_from_their_checkpoints_with_each_row_once(scene: Scene) -> None:
    stream, other = scene.streams
    before, kept = stream.view, other.attempt().driver
    driver = stream.attempt().driver
    machine = scene.machines[before["node"]]
    stays = before["node"] != other.view["node"]
    lost_at = machine.lose()
    again = stream.next_driver(driver)
    assert again.first_seen - lost_at > SESSION_TIMEOUT_S + MARGIN_S - 3 * TICK_S, (
        "sooner than anybody could be sure of its end"
    )
    view = stream.well()
    assert view["node"] != before["node"]
    assert view["restarts"] == before["restarts"] + 1
    if stays:
        assert other.attempt().driver == kept
    with scene.feeder.resting() as rows:
        for each in scene.streams:
            until(lambda each=each: sum(output_of(each.output).values()) >= sum(rows.values()), 120, f"{each.name} is done")
            assert output_of(each.output) == rows
