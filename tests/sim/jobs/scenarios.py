"""Scenarios of job schedules, one function each."""

from collections.abc import Callable
from random import Random

from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired
from holdfast.plan.retention import RetentionPolicy
from tests.sim.jobs.cluster.drivers import Behaviour, Driver, DriverEnd
from tests.sim.jobs.cluster.job_node import JobNode
from tests.sim.jobs.faults.malformed_znodes import ZnodeCorruption
from tests.sim.jobs.faults.newer_schema import NewerSchemaRecords
from tests.sim.jobs.faults.targeted_faults import ATTEMPT_ASSIGNED, LEASE_TAKEN
from tests.sim.jobs.scenario_run import FAULTS_UNTIL_S, ScenarioRun
from tests.sim.leadership.agent_node import TICK_S, TIMEOUT_S, TIMING
from tests.sim.zk.znode_tree import SimZnode

SERVERS_PAUSED = "all servers paused"
CRASH_RESTART_S_MAX = 4.0
AGENT_RESTART_S_MAX = 2.0
MACHINE_LOSS_RESTART_S_MAX = TIMEOUT_S + 2 * TICK_S + TIMING.margin_s + 3.0
DESIRED_REACHED_BY_S = 26.0
"""Time by which each desired state set before 14 s must be reached; allows for graceful stops and a second fault."""
CUT_NODE_ENDED_S_MAX = 2 * TIMEOUT_S + 2 * TIMING.margin_s + 10.0
"""Maximum time from the cut, or from a later request, to the end of a job whose node is cut off: the session and the promise of
another node run out one after the other, and the agent of that node may restart in between."""
ISOLATION_S_MAX = TIMEOUT_S + TIMING.heartbeat_s + TIMING.kill_s + 0.5
"""Maximum time from total isolation of all nodes to the death of the last driver."""

# Scenarios with arbitrary faults


def many_random_faults(run: ScenarioRun) -> None:
    run.submit_jobs(run.random.randrange(1, 4), run.random_behaviour, 6.0)
    run.change_desired_at_random(0.4)
    for _ in range(run.random.randrange(2, 8)):
        run.faults.schedule_random_fault(run.random.uniform(1.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)


def targeted_faults(run: ScenarioRun) -> None:
    run.submit_jobs(run.random.randrange(1, 3), run.random_behaviour, 4.0)
    run.change_desired_at_random(0.4)
    for _ in range(run.random.randrange(1, 4)):
        run.faults.arm_targeted_fault()
    for _ in range(run.random.randrange(2)):
        run.faults.schedule_random_fault(run.random.uniform(3.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)


def lease_faults(run: ScenarioRun) -> None:
    """Disturb runners around their leases: renewals, the start of the driver, and taking the lease.

    Nodes do not reach each other in most schedules. Promises would hide a lease that is used for too long.
    """
    run.submit_jobs(run.random.randrange(1, 3), run.endless_behaviour, 2.0)
    if run.random.random() < 0.7:
        for node in run.nodes:
            run.faults.cut_lan_of(node.name)
    faults = run.faults
    scripts = [
        faults.delay_renewal_reply,
        faults.pause_after_renewal,
        faults.isolate_server_of_runner,
        faults.reconnect_before_expiry,
    ]
    starts = [
        faults.pause_during_start,
        faults.pause_machine_at_start_request,
        faults.kill_runner_at_fork,
        faults.delay_lease_request,
    ]
    run.run_one_script([*scripts, *starts])


def leader_faults(run: ScenarioRun) -> None:
    """Disturb the leader between a decision and its commit."""
    run.submit_jobs(run.random.randrange(1, 3), run.random_behaviour, 2.0)
    faults = run.faults
    scripts = [
        faults.change_epoch_before_commit,
        faults.change_desired_around_commit,
        faults.hang_agent_before_certificate,
        faults.crash_leader_within_margin,
    ]
    run.run_one_script(scripts)


def desired_state_changes(run: ScenarioRun) -> None:
    """Change desired states without any fault. Every desired state must be reached in time."""
    run.submit_jobs(run.random.randrange(1, 4), run.endless_behaviour, 3.0)
    for job in run.jobs:
        for _ in range(run.random.randrange(1, 4)):
            at_s = run.random.uniform(0.5, 14.0)
            desired = run.random.choice([Desired.STOP, Desired.CANCEL, Desired.RUN, Desired.RUN])
            run.users.set_desired(at_s, job, desired, repeat=True)
    run.world.run_for(DESIRED_REACHED_BY_S - run.world.now_s)
    for problem in run.oracles.unhealthy_jobs():
        run.oracles.report_violation(f"without any fault: {problem}")


def failsafe_faults(run: ScenarioRun) -> None:
    run.until_s = 36.0
    run.submit_jobs(run.random.randrange(1, 3), run.endless_behaviour, 2.0)
    run.run_one_script(
        [
            run.faults.cut_zookeeper_from_driver,
            run.faults.cut_zookeeper_from_driver,
            run.faults.isolate_runner_with_new_session,
            run.faults.return_node_outside_set,
            run.faults.lose_reply_of_set_change,
            run.faults.join_node_without_promises,
        ]
    )


def scheduled_jobs(run: ScenarioRun) -> None:
    """Faults and requests of users while jobs run by a schedule. Each due time has one run, and the schedules go on."""
    run.submit_scheduled_jobs(run.random.randrange(1, 3), 3.0)
    run.change_desired_at_random(0.3)
    for _ in range(run.random.randrange(0, 3)):
        run.faults.arm_targeted_fault()
    for _ in range(run.random.randrange(1, 5)):
        run.faults.schedule_random_fault(run.random.uniform(3.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)
    if run.random.random() < 0.5:
        run.world.schedule_at(run.random.uniform(4.0, FAULTS_UNTIL_S), lambda: run.run_one_script([_crash_leader(run)]))


def _crash_leader(run: ScenarioRun) -> Callable[[], None]:
    def leader_crashed() -> None:
        for leader in [node for node in run.nodes if node.is_leading()]:
            leader.crash()

    return leader_crashed


def unreported_endings(run: ScenarioRun) -> None:
    for node in run.nodes:
        node.retention = RetentionPolicy(ended_s=3.0)
    run.submit_jobs(run.random.randrange(1, 3), run.finishing_behaviour, 3.0)
    run.run_one_script([run.faults.lose_runner_after_outcome])
    if run.random.random() < 0.5:
        run.faults.arm_targeted_fault()


def requests_around_losses(run: ScenarioRun) -> None:
    """Users stop, resume, restart, upgrade, trust and cancel jobs in any order, while attempts are lost."""
    run.stable_s = 2 * TIMEOUT_S  # until the sessions of users and processes that were cut off have expired
    run.submit_jobs(run.random.randrange(1, 3), run.random.choice([run.finishing_behaviour, run.endless_behaviour]), 2.0)
    for job in run.jobs:
        for _ in range(run.random.randrange(2, 7)):
            _request_at_random(run, run.random.uniform(2.0, FAULTS_UNTIL_S), job)
    run.run_one_script([run.faults.lose_runner_after_outcome, run.faults.crash_leader_within_margin, run.faults.remove_lease])
    for _ in range(run.random.randrange(1, 4)):
        run.faults.schedule_random_fault(run.random.uniform(2.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)
    if run.random.random() < 0.5:
        run.faults.arm_targeted_fault()


def _request_at_random(run: ScenarioRun, at_s: float, job: JobId) -> None:
    users = run.users
    match run.random.randrange(8):
        case 0 | 1:
            users.set_desired(at_s, job, Desired.STOP, repeat=True)
        case 2 | 3:
            users.set_desired(at_s, job, Desired.RUN, repeat=True)
        case 4:
            users.upgrade(at_s, job)
        case 5:
            users.trust_checkpoint(at_s, job)
        case 6:
            run.world.schedule_at(at_s, _force_restart_after_power_loss, run, job)
        case _ if run.random.random() < 0.3:
            users.set_desired(at_s, job, Desired.CANCEL)


def _force_restart_after_power_loss(run: ScenarioRun, job: JobId) -> None:
    """Force a restart if the machine of the last attempt is off: only then the user knows that the attempt is dead."""
    record = run.oracles.job_record(job)
    last = record.report or record.state  # while another node certifies the death, the state names that node
    node = next((node for node in run.nodes if last is not None and node.name == last["node"]), None)
    is_newest = last is not None and last["attempt"] == record.attempt
    if is_newest and node is not None and node.powered_off:
        run.users.set_desired(run.world.now_s, job, Desired.RUN, repeat=True, force=True)


# Scenarios with a claim about unaffected drivers


def leader_failover(run: ScenarioRun) -> None:
    """Invariant 8: a leader failover restarts no driver."""
    before = run.run_until_healthy()
    for _ in range(run.random.randrange(1, 4)):
        run.world.run_for(run.random.uniform(0.0, 4.0))
        leaders = [node for node in run.nodes if node.is_leading()]
        if leaders:
            _disturb_leader(run, leaders[0])
    run.check_no_driver_ended(before, "the leader was replaced")


def _disturb_leader(run: ScenarioRun, leader: JobNode) -> None:
    world = run.world
    match run.random.randrange(4):
        case 0 | 1:
            run.faults.fault_names.append("leader crashed")
            leader.crash()
        case 2 if leader.session is not None:
            run.faults.fault_names.append("leader session closed")
            world.zk.close_session(leader.session)
        case _:
            run.faults.fault_names.append("leader suspended")
            hang = run.random.random() < 0.3
            run.faults.suspend_agent_for(leader, run.random.uniform(1.0, 14.0), hang=hang)


def single_attempt_failure(run: ScenarioRun) -> None:
    """Invariant 20, with bounds: after a failure of one attempt, the next attempt starts in time."""
    before = run.run_until_healthy()
    run.world.run_for(run.random.uniform(0.0, 3.0))
    victim = run.random.choice(before)
    assert victim.runner is not None and victim.watchdog is not None
    at_s, bound_s = run.world.now_s, CRASH_RESTART_S_MAX
    match run.random.randrange(4):
        case 0:
            run.faults.fault_names.append("runner killed")
            victim.machine.kill(victim.runner)
        case 1:
            run.faults.fault_names.append("watchdog killed")
            victim.machine.kill(victim.watchdog)
        case 2:
            run.faults.fault_names.append("runner and agent killed")
            victim.machine.kill(victim.runner)
            run.faults.node_of(victim).crash()
            bound_s += AGENT_RESTART_S_MAX
        case _:
            run.faults.fault_names.append("machine lost")
            run.faults.node_of(victim).power_off()
            bound_s = MACHINE_LOSS_RESTART_S_MAX

    def restarted() -> bool:
        return any(driver is not victim for driver in run.environment.drivers.list_alive(victim.job))

    run.world.run_until(restarted, within_s=bound_s, what=f"another attempt of {victim.job}")
    run.restart_s = run.world.now_s - at_s
    run.check_no_driver_ended(
        [each for each in before if each.machine is not victim.machine and each is not victim],
        "an attempt on another machine failed",
    )


def short_disconnections(run: ScenarioRun) -> None:
    """G1: a connection that is lost and regained within the session timeout has no effect."""
    before = run.run_until_healthy()
    zk = run.world.zk
    for _ in range(run.random.randrange(1, 4)):
        run.world.run_for(run.random.uniform(0.0, 2.0))
        node = run.random.choice(run.nodes)
        match run.random.randrange(4):
            case 0:
                zk.drop_connections()
            case 1:
                zk.network.cut(node.name, requests=run.random.random() < 0.5)
                run.world.schedule_at(run.world.now_s + run.random.uniform(0.1, 5.0), zk.network.heal, node.name)
            case 2:
                zk.change_leader()
            case _:
                server = run.random.randrange(3)
                zk.kill(server)
                run.world.schedule_at(run.world.now_s + run.random.uniform(0.5, 5.0), zk.restart, server)
        run.world.run_for(5.5)
    run.check_no_driver_ended(before, "a connection was lost for less than the session timeout")


def zookeeper_outage(run: ScenarioRun) -> None:
    """Invariant 9: a ZooKeeper outage of any length restarts no driver while the nodes see each other."""
    before = run.run_until_healthy()
    zk, length_s = run.world.zk, run.random.uniform(3.0, 40.0)
    _disturb_agent_at_outage(run)
    draw = run.random.random()
    if draw < 0.4:
        for server in range(3):
            zk.kill(server)
        run.world.run_for(length_s)
        for server in range(3):
            zk.restart(server)
    elif draw < 0.7:
        run.faults.fault_names.append(SERVERS_PAUSED)
        _pause_servers(run, length_s)
    else:
        zk.stall_commits(length_s)
        run.world.run_for(length_s)
    run.check_no_driver_ended(before, f"ZooKeeper was down for {length_s:.1f} s")


def _pause_servers(run: ScenarioRun, length_s: float) -> None:
    """Pause all servers, up to three times. Sessions expire when the servers continue."""
    zk = run.world.zk
    for _ in range(run.random.randrange(1, 4)):
        zk.pause_all()
        run.world.run_for(length_s)
        zk.resume_all()
        if run.random.random() < 0.5:
            run.world.run_for(run.random.uniform(0.0, 3.0))
            zk.change_leader()
        run.world.run_for(run.random.uniform(0.0, 12.0))


def _disturb_agent_at_outage(run: ScenarioRun) -> None:
    """Crash, pause or hang one agent, or crash all agents, around the moment at which the outage begins."""
    after_s = run.random.uniform(0.0, 2.0)
    node = run.random.choice(run.nodes)
    match run.random.randrange(5):
        case 0:
            run.faults.fault_names.append("agent crashed at outage")
            run.world.schedule_at(run.world.now_s + after_s, node.crash)
        case 1:
            run.faults.fault_names.append("all agents crashed at outage")
            for each in run.nodes:
                run.world.schedule_at(run.world.now_s + after_s, each.crash)
        case 2:
            run.faults.fault_names.append("agent suspended at outage")
            paused_s, hang = run.random.uniform(0.5, 5.0), run.random.random() < 0.5
            run.world.schedule_at(run.world.now_s + after_s, lambda: run.faults.suspend_agent_for(node, paused_s, hang=hang))
        case _:
            pass


def total_isolation(run: ScenarioRun) -> None:
    """Cut every node off from ZooKeeper and from all other nodes: every driver must end by its deadline."""
    run.run_until_healthy()
    for server in range(3):
        run.world.zk.kill(server)
    for node in run.nodes:
        run.faults.cut_lan_of(node.name)
    isolated_s = run.world.now_s
    run.world.run_for(ISOLATION_S_MAX)
    for driver in run.environment.drivers.list_alive():
        run.oracles.report_violation(f"{driver} is alive {run.world.now_s - isolated_s:.1f} s after it was isolated")


def lease_removal(run: ScenarioRun) -> None:
    run.run_until_healthy()
    for _ in range(run.random.randrange(1, 3)):
        run.world.run_for(run.random.uniform(0.0, 6.0))
        run.faults.remove_lease()


NEWER_SCHEMA_SHARE = 0.3
"""Share of the schedules of `malformed_records` in which a later version of Holdfast, instead of a defect, wrote the bytes."""


def newer_schema_records(run: ScenarioRun) -> None:
    """Invariant 21: records of a newer schema stop neither the leader nor the management of other jobs."""
    before = run.run_until_healthy(count=run.random.randrange(2, 4))
    victim = run.random.choice(before).job
    records = NewerSchemaRecords(run.world, victim, run.oracles, run.random)
    for _ in range(run.random.randrange(1, 4)):
        run.world.run_for(run.random.uniform(0.0, 3.0))
        run.faults.fault_names.append(records.write_one())
        leaders = [node for node in run.nodes if node.is_leading()]
        if leaders and run.random.random() < 0.5:
            leaders[0].crash()
    run.submit_job(run.world.now_s + 0.5, run.endless_behaviour())
    run.check_no_driver_ended(before, f"a later version wrote records of {victim}")
    for path in records.changed_paths():
        run.oracles.report_violation(f"{path} has a newer schema, and a node has changed it")


def malformed_records(run: ScenarioRun) -> None:
    """Invariant 21: arbitrary bytes in the znodes of a job harm only that job."""
    # A separate generator keeps the other schedules of this scenario, whose seeds are recorded, as they are.
    if Random(f"{run.world.seed}/newer record").random() < NEWER_SCHEMA_SHARE:
        newer_schema_records(run)
        return
    before = run.run_until_healthy(count=run.random.randrange(2, 4))
    victim = _choose_victim(run, before)
    corruption = ZnodeCorruption(run.world, victim, run.oracles, run.random)
    for _ in range(run.random.randrange(1, 6)):
        run.world.run_for(run.random.uniform(0.0, 3.0))
        run.faults.fault_names.append(corruption.corrupt_once())
        if run.random.random() < 0.3:
            leaders = [node for node in run.nodes if node.is_leading()]
            if leaders:
                leaders[0].crash()
    run.check_no_driver_ended([driver for driver in before if driver.job != victim], f"the znodes of {victim} were corrupted")


def older_copy_restored(run: ScenarioRun) -> None:
    """Rule 9: restore a copy in which a job is starting, after the job was cancelled. No node may act on the copy."""
    zk, copies = run.world.zk, list[dict[str, SimZnode]]()
    zk.hook_after(ATTEMPT_ASSIGNED, lambda _: copies.append(zk.copy_data()))
    job = run.run_until_healthy(count=1)[0].job
    run.users.set_desired(run.world.now_s, job, Desired.CANCEL)
    run.world.run_until(lambda: run.oracles.job_record(job).is_final, within_s=15.0, what="the end of the cancelled job")
    run.world.run_for(run.random.uniform(0.0, 3.0))
    run.oracles.older_copy_restored = True
    run.can_recover = False
    zk.restore_data(copies[0])
    for node in run.random.sample(run.nodes, run.random.randrange(1, 4)):
        run.world.schedule_at(run.world.now_s + run.random.uniform(0.0, 8.0), node.crash)
    run.world.run_for(3 * TIMEOUT_S)
    for node in run.nodes:
        if node.agent is None or "came back older" not in node.agent.status.problem:
            run.oracles.report_violation(f"{node.name} does not report that ZooKeeper came back older")


def stopped_supervision(run: ScenarioRun) -> None:
    """Stop a runner and its watchdog together. The node ends the attempt, before another attempt starts."""
    run.until_s = 40.0
    run.run_until_healthy()
    run.world.run_for(run.random.uniform(0.0, 4.0))
    run.run_one_script([run.faults.stop_supervision])


def stopped_supervision_and_agent(run: ScenarioRun) -> None:
    """Stop a runner, its watchdog and the agent of the only node with slots. The node ends the old attempt before the next."""
    run.until_s = 50.0
    run.run_until_healthy(count=1)
    run.world.run_for(run.random.uniform(0.0, 4.0))
    run.run_one_script([run.faults.stop_supervision_and_agent])


def cut_node_cancelled(run: ScenarioRun) -> None:
    """Cut one node off from ZooKeeper only, and cancel or stop its job: the job ends in time, and only after its driver."""
    driver = run.run_until_healthy(count=1)[0]
    run.world.run_for(run.random.uniform(0.0, 4.0))
    name, job = driver.machine.name, driver.job
    run.world.zk.network.cut(name)
    request_s = run.random.uniform(0.0, 20.0)
    if run.random.random() < 0.5:
        # The node returns while another node waits for its promise to run out. The leader may see the new lease late.
        returns_s = TIMEOUT_S + TIMING.margin_s + run.random.uniform(1.0, 10.0)
        request_s += returns_s if run.random.random() < 0.5 else 0.0
        run.faults.fault_names.append("cut node returns")
        run.world.schedule_at(run.world.now_s + returns_s, run.world.zk.network.heal, name)
        if run.random.random() < 0.7:
            run.world.zk.hook_after(LEASE_TAKEN, lambda _: _suspend_leader(run))
    elif run.random.random() < 0.3:
        run.faults.fault_names.append("agent crashed while it waits")
        node = run.random.choice([each for each in run.nodes if each.name != name])
        run.world.schedule_at(run.world.now_s + TIMEOUT_S + TIMING.margin_s + run.random.uniform(1.0, 8.0), node.crash)
    desired, phase = run.random.choice([(Desired.CANCEL, "CANCELLED"), (Desired.STOP, "PARKED")])
    run.users.set_desired(run.world.now_s + request_s, job, desired, repeat=True)
    run.world.run_until(
        lambda: run.oracles.job_record(job).phase == phase,
        within_s=request_s + CUT_NODE_ENDED_S_MAX,
        what=f"{phase} of {job}, whose node is cut off from ZooKeeper",
    )
    for alive in run.environment.drivers.list_alive(job):
        run.oracles.report_violation(f"{alive} is alive, but the job is {phase}")


def _suspend_leader(run: ScenarioRun) -> None:
    if (leader := run.faults.leader()) is not None:
        run.faults.fault_names.append("leader suspended when the lease was taken again")
        run.faults.suspend_agent_for(leader, run.random.uniform(6.0, 12.0), hang=False)


def _choose_victim(run: ScenarioRun, before: list[Driver]) -> JobId:
    """Return a running job, or a job that was cancelled or has finished and must not start again."""
    victim = run.random.choice(before).job
    if run.random.random() < 0.6:
        return victim
    if run.random.random() < 0.5:
        run.users.set_desired(run.world.now_s, victim, Desired.CANCEL)
    else:
        run.submit_job(run.world.now_s, Behaviour(DriverEnd.FINISHED, 0.5, 1.0), "exponential")
        victim = run.jobs[-1]
    ids = (victim, JobId(f"{victim}b"))  # the submission is sent twice, and either id may have won
    run.world.run_until(
        lambda: any(run.oracles.job_record(id).is_final for id in ids), within_s=15.0, what="final phase of a job"
    )
    return next(id for id in ids if run.oracles.job_record(id).is_final)


# The names are part of the random seeds: changing one changes every schedule of that scenario.
SCENARIOS: dict[str, Callable[[ScenarioRun], None]] = {
    "handover": targeted_faults,
    "storm": many_random_faults,
    "lease": lease_faults,
    "leader": leader_faults,
    "failsafe": failsafe_faults,
    "ending": unreported_endings,
    "words": desired_state_changes,
    "failover": leader_failover,
    "mishap": single_attempt_failure,
    "blip": short_disconnections,
    "outage": zookeeper_outage,
    "darkness": total_isolation,
    "expulsion": lease_removal,
    "garbage": malformed_records,
    "older copy": older_copy_restored,
    "stopped": stopped_supervision,
    "stopped agent": stopped_supervision_and_agent,
    "schedule": scheduled_jobs,
    "cut node": cut_node_cancelled,
    "requests": requests_around_losses,
}
SCHEDULE_SEEDS_FROM = 1_000_000
"""Seeds from here on are of the scenario `schedule`. It is not in the rotation, so that the other seeds stay as they are."""
REQUEST_SEEDS_FROM = 2_000_000
"""Seeds from here on are of the scenario `requests`."""


def _rotate(rare_scenario: str) -> tuple[str, ...]:
    return (
        *("words", "storm", "mishap", "failsafe"),
        *("handover", "failover", "ending", "garbage"),
        *(rare_scenario, "leader", "lease", "failsafe"),
        *("outage", "expulsion", "blip", "darkness"),
    )


SCENARIO_ROTATION = (*_rotate("stopped"), *_rotate("older copy"), *_rotate("cut node"), *_rotate("stopped agent"))
"""Scenario names, assigned to the seeds in turn."""
