"""Catalogue of the chaos suite: names of kinds, the seeded plan, and the damage that each kind may do."""

from itertools import islice

import pytest

from holdfast.zk.session.timing import Timing
from tests.chaos.catalogue import (
    ALL_KINDS,
    FREEZE_KINDS,
    NAMESPACE_KINDS,
    PAIR_KINDS,
    SINGLE_KINDS,
    SPARK_KINDS,
    STORAGE_KINDS,
    Durations,
    Part,
    has_duration,
    hits_other_nodes,
    is_permanent,
    jobs_that_may_restart,
    parse_kind,
    plan_faults,
    supported_kinds,
)
from tests.chaos.lanes import LANES, SHORT_LANE
from tests.chaos.timing import CALM_TIMING, SHORT_TIMING, SYNC_LIMIT, ChaosTiming

DURATIONS = Durations(session_timeout_s=3.0, margin_s=1.2)


def damage(kind: str, duration_s: float = 10.0) -> frozenset[str]:
    return jobs_that_may_restart(
        kind, duration_s=duration_s, harmless_s=1.0, victim="a", jobs_on_node=("a", "b"), jobs=("a", "b", "c")
    )


def test_kind_names_its_parts() -> None:
    assert parse_kind("stop:runner+kill:watchdog") == (Part("stop", "runner"), Part("kill", "watchdog"))


def test_every_pair_of_roles_is_killed_and_stopped_together() -> None:
    assert len(PAIR_KINDS) == 10 * 4
    assert "stop:runner+stop:watchdog" in PAIR_KINDS and "kill:agent+stop:driver" in PAIR_KINDS


def test_one_seed_gives_one_plan() -> None:
    first, again = (list(islice(plan_faults(7, ALL_KINDS, DURATIONS), 200)) for _ in range(2))
    assert first == again
    assert first != list(islice(plan_faults(8, ALL_KINDS, DURATIONS), 200))


def test_each_round_of_a_plan_has_every_kind_once() -> None:
    kinds = [fault.kind for fault in islice(plan_faults(7, ALL_KINDS, DURATIONS), 2 * len(ALL_KINDS))]
    assert sorted(kinds[: len(ALL_KINDS)]) == sorted(kinds[len(ALL_KINDS) :]) == sorted(ALL_KINDS)


def test_given_duration_replaces_the_choice_but_neither_adds_one_nor_limits_a_permanent_fault() -> None:
    kinds = ("stop:runner+stop:watchdog", "kill:agent", "lose:node")
    planned = islice(plan_faults(7, kinds, DURATIONS, duration_s=40.0), 3)
    assert {fault.kind: (fault.duration_s, fault.duration) for fault in planned} == {
        "stop:runner+stop:watchdog": (40.0, "40 s"),
        "kill:agent": (0.0, ""),
        "lose:node": (0.0, "for good"),
    }


def test_durations_reach_from_a_fraction_of_the_session_timeout_to_a_multiple_and_around_the_deadline() -> None:
    seconds = [round(duration_s, 3) for duration_s, _ in DURATIONS.choices()]
    assert seconds == [0.9, 2.7, 3.15, 4.5, 9.0, 12.0, 1.75, 1.85]


def test_only_stops_and_outages_have_a_duration() -> None:
    assert [
        has_duration(kind) for kind in ("kill:agent", "stop:agent", "kill:zk-all", "kill:runner+stop:agent", "kill:node")
    ] == [
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in ALL_KINDS
        if not any(role in kind for role in ("runner", "watchdog", "kill:driver", ":node", ":link", ":disk"))
    ],
)
def test_loss_of_agents_guards_leaders_and_zookeeper_may_restart_no_job(kind: str) -> None:
    assert damage(kind) == frozenset()


def test_loss_of_a_process_of_an_attempt_may_restart_that_job_only() -> None:
    for kind in (
        "kill:runner",
        "kill:watchdog",
        "kill:driver",
        "stop:runner",
        "stop:runner+stop:watchdog",
        "kill:agent+kill:driver",
    ):
        assert damage(kind) == {"a"}


def test_stop_that_ends_before_the_deadline_may_restart_no_job() -> None:
    assert damage("stop:runner+stop:watchdog", 0.9) == damage("stop:node", 0.9) == frozenset()
    assert damage("kill:runner+stop:watchdog", 0.9) == {"a"}


def test_network_between_one_node_and_zookeeper_concerns_the_jobs_of_that_node_only() -> None:
    assert damage("cut:link") == damage("swallow:link") == {"a", "b"}
    assert damage("cut:links") == damage("swallow:links") == frozenset()


def test_cut_between_one_node_and_zookeeper_or_everything_may_restart_the_jobs_of_that_node_only() -> None:
    for action in ("cut", "cut-in", "cut-out", "cut-for-good"):
        assert damage(f"{action}:node-zk") == damage(f"{action}:node-all") == {"a", "b"}
        assert damage(f"{action}:node-zk", 0.9) == damage(f"{action}:node-all", 0.9) == frozenset()


def test_cut_between_all_nodes_but_one_and_zookeeper_concerns_the_jobs_of_the_nodes_that_are_cut_off() -> None:
    assert [kind for kind in NAMESPACE_KINDS if hits_other_nodes(kind)] == ["cut:others-zk"]
    assert damage("cut:others-zk") == {"a", "b"}


def test_cut_between_nodes_may_restart_no_job_while_zookeeper_confirms_their_leases() -> None:
    for kind in ("cut:node-peers", "cut-in:node-peers", "cut-out:node-peers", "cut:all-peers", "cut:all-peers+kill:agents"):
        assert damage(kind) == frozenset()
    assert damage("cut:node-peers+kill:runner") == {"a"}


def test_zookeeper_that_is_away_for_all_nodes_may_restart_no_job_unless_a_node_is_cut_off_from_the_others() -> None:
    for kind in ("cut:all-zk", "cut-in:all-zk", "cut-out:all-zk", "kill:zk-all+unmount:storage"):
        assert damage(kind) == frozenset()
    for kind in ("kill:zk-all+cut:node-peers", "stop:zk-all+cut:node-peers", "kill:zk-all+cut:all-peers"):
        assert damage(kind) == {"a", "b", "c"}
        assert damage(kind, 0.9) == frozenset()


def test_storage_that_is_away_may_restart_no_job() -> None:
    for kind in (*STORAGE_KINDS, *FREEZE_KINDS):
        others = "+".join(part for part in kind.split("+") if "storage" not in part)
        assert damage(kind) == (damage(others) if others else frozenset())


def test_faults_for_good_may_restart_the_jobs_of_the_lost_node_only() -> None:
    permanent = [kind for kind in NAMESPACE_KINDS if is_permanent(kind)]
    assert permanent == ["cut-for-good:node-zk", "cut-for-good:node-all", "lose:node", "lose:node+kill:leader"]
    for kind in permanent:
        assert damage(kind) == {"a", "b"}
    planned = [fault for fault in islice(plan_faults(7, permanent, DURATIONS), 8)]
    assert {(fault.duration_s, fault.duration) for fault in planned} == {(0.0, "for good")}


def test_loss_of_a_node_or_of_its_disk_may_restart_its_jobs_only() -> None:
    assert damage("kill:node") == damage("stop:node") == damage("fill:disk") == {"a", "b"}


def test_kinds_that_a_machine_does_not_support_are_left_out() -> None:
    kinds = ("kill:agent", "stall:zk-all", "fill:disk", "cut:node-all", "unmount:storage", "freeze:storage")
    everything = {"can_stall": True, "can_mount": True, "can_partition": True, "can_freeze": True}
    assert supported_kinds(kinds, **everything) == kinds
    assert supported_kinds(kinds, **dict.fromkeys(everything, False)) == ("kill:agent",)
    assert supported_kinds(kinds, **{**everything, "can_freeze": False}) == kinds[:-1]


@pytest.mark.parametrize("timing", [SHORT_TIMING, CALM_TIMING], ids=["short", "calm"])
def test_timings_of_the_suite_are_accepted_and_their_shortest_stop_is_harmless(timing: ChaosTiming) -> None:
    checked = Timing(
        heartbeat_s=timing.heartbeat_s,
        tick_s=timing.tick_s,
        sync_limit=SYNC_LIMIT,
        kill_s=timing.kill_s,
        margin_s=timing.margin_s,
    )
    assert checked.find_problem(timing.session_timeout_s) is None
    assert timing.session_timeout_s <= 20 * timing.tick_s, "the server grants it"
    shortest_s = min(duration_s for duration_s, _ in timing.durations.choices())
    assert shortest_s < timing.harmless_s


def test_lanes_name_only_kinds_of_the_catalogue() -> None:
    for name, lane in LANES.items():
        assert lane.kinds
        assert set(lane.kinds) <= {*ALL_KINDS, *{"spark": SPARK_KINDS, "network": NAMESPACE_KINDS}.get(name, ())}


def test_every_kind_belongs_to_a_lane() -> None:
    assert set(SINGLE_KINDS) <= set(SHORT_LANE)
    assert {kind for lane in LANES.values() for kind in lane.kinds} == {*ALL_KINDS, *NAMESPACE_KINDS, *SPARK_KINDS}
