"""What happens in a schedule: one function for each kind."""

from collections.abc import Callable

from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired
from holdfast.plan.retention import Keep
from tests.sim.jobs.drivers import Behaviour, Driver, End
from tests.sim.jobs.garbage import Garbage
from tests.sim.jobs.node import JobNode
from tests.sim.jobs.play import FAULTS_UNTIL_S, Play
from tests.sim.nodes import TICK_S, TIMEOUT_S, TIMING

CRASH_S_MAX = 4.0
AGENT_S_MAX = 2.0
LOSS_S_MAX = TIMEOUT_S + 2 * TICK_S + TIMING.margin_s + 3.0
WORDS_UNTIL_S = 26.0
"""A word that is said at 14 s is done by then: what has to stop is given four seconds, and a second loss costs some too."""
DARK_S_MAX = TIMEOUT_S - TIMING.margin_s + TIMING.heartbeat_s + TIMING.kill_s + 0.5
"""From the moment when nobody hears anybody any more to the end of the last driver."""

# With anything allowed


def storm(play: Play) -> None:
    play.new_jobs(play.random.randrange(1, 4), play.any_behaviour, 6.0)
    play.some_words(0.4)
    for _ in range(play.random.randrange(2, 8)):
        play.faults.random_one(play.random.uniform(1.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)


def handover(play: Play) -> None:
    play.new_jobs(play.random.randrange(1, 3), play.any_behaviour, 4.0)
    play.some_words(0.4)
    for _ in range(play.random.randrange(1, 4)):
        play.faults.aimed_one()
    for _ in range(play.random.randrange(2)):
        play.faults.random_one(play.random.uniform(3.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)


def lease(play: Play) -> None:
    """What can happen between a runner and its lease."""
    play.new_jobs(play.random.randrange(1, 3), play.forever, 2.0)
    faults = play.faults
    scripts = [faults.late_reply, faults.late_look, faults.lonely_server, faults.back_at_the_last_moment]
    starts = [faults.pause_at_the_start, faults.paused_at_the_gate, faults.killed_at_the_fork, faults.late_taker]
    play.follow([*scripts, *starts])


def leader(play: Play) -> None:
    """What can happen between a leader and what it decides."""
    play.new_jobs(play.random.randrange(1, 3), play.any_behaviour, 2.0)
    faults = play.faults
    scripts = [faults.epoch_meanwhile, faults.word_meanwhile, faults.hung_undertaker, faults.leader_dies_in_the_margin]
    play.follow(scripts)


def words(play: Play) -> None:
    """What people say is done, and soon, if nothing is wrong."""
    play.new_jobs(play.random.randrange(1, 4), play.forever, 3.0)
    said: list[tuple[float, JobId]] = []
    for job in play.jobs:
        for _ in range(play.random.randrange(1, 4)):
            at_s = play.random.uniform(0.5, 14.0)
            said.append((at_s, job))
            desired = play.random.choice([Desired.STOP, Desired.CANCEL, Desired.RUN, Desired.RUN])
            play.people.say(at_s, job, desired, again=True)
    play.world.run_for(WORDS_UNTIL_S - play.world.now_s)
    for sentence in play.oracles.ill():
        play.oracles.violated(f"nothing was wrong, and {sentence}")


def failsafe(play: Play) -> None:
    play.until_s = 36.0
    play.new_jobs(play.random.randrange(1, 3), play.forever, 2.0)
    play.follow([play.faults.exile, play.faults.exile, play.faults.exile, play.faults.newcomer, play.faults.unsure_set])


def ending(play: Play) -> None:
    for node in play.nodes:
        node.keep = Keep(ended_s=3.0)
    play.new_jobs(play.random.randrange(1, 3), play.finishing, 3.0)
    play.follow([play.faults.end_unheard])
    if play.random.random() < 0.5:
        play.faults.aimed_one()


# With a claim about what must not happen


def failover(play: Play) -> None:
    """Invariant 8: whatever happens to the leader alone, no driver is restarted."""
    before = play.settled()
    for _ in range(play.random.randrange(1, 4)):
        play.world.run_for(play.random.uniform(0.0, 4.0))
        leaders = [node for node in play.nodes if node.leading()]
        if leaders:
            _depose(play, leaders[0])
    play.unharmed(before, "the leader was replaced")


def _depose(play: Play, leader: JobNode) -> None:
    world = play.world
    match play.random.randrange(4):
        case 0 | 1:
            play.faults.names.append("crash")
            leader.crash()
        case 2 if leader.session is not None:
            play.faults.names.append("end its session")
            world.zk.close_session(leader.session)
        case _:
            play.faults.names.append("stop")
            hang = play.random.random() < 0.3
            play.faults.stop_agent(leader, play.random.uniform(1.0, 14.0), hang=hang)


def mishap(play: Play) -> None:
    """Invariant 20, with figures: one thing happens to one attempt, and soon there is the next one."""
    before = play.settled()
    play.world.run_for(play.random.uniform(0.0, 3.0))
    victim = play.random.choice(before)
    assert victim.runner is not None and victim.watchdog is not None
    at_s, bound_s = play.world.now_s, CRASH_S_MAX
    match play.random.randrange(4):
        case 0:
            play.faults.names.append("its runner is killed")
            victim.machine.kill(victim.runner)
        case 1:
            play.faults.names.append("its watchdog is killed")
            victim.machine.kill(victim.watchdog)
        case 2:
            play.faults.names.append("its runner and its agent are killed")
            victim.machine.kill(victim.runner)
            play.faults.node_of(victim).crash()
            bound_s += AGENT_S_MAX
        case _:
            play.faults.names.append("its machine is lost")
            play.faults.node_of(victim).lose()
            bound_s = LOSS_S_MAX

    def again() -> bool:
        return any(driver is not victim for driver in play.around.drivers.living(victim.job))

    play.world.run_until(again, within_s=bound_s, what=f"another attempt of {victim.job}")
    play.restart_s = play.world.now_s - at_s
    play.unharmed([each for each in before if each.machine is not victim.machine and each is not victim], "another was hurt")


def blip(play: Play) -> None:
    """G1: a connection that is lost and regained within the session costs nothing."""
    before = play.settled()
    zk = play.world.zk
    for _ in range(play.random.randrange(1, 4)):
        play.world.run_for(play.random.uniform(0.0, 2.0))
        node = play.random.choice(play.nodes)
        match play.random.randrange(4):
            case 0:
                zk.drop_connections()
            case 1:
                zk.network.cut(node.name, requests=play.random.random() < 0.5)
                play.world.at(play.world.now_s + play.random.uniform(0.1, 5.0), zk.network.heal, node.name)
            case 2:
                zk.change_leader()
            case _:
                server = play.random.randrange(3)
                zk.kill(server)
                play.world.at(play.world.now_s + play.random.uniform(0.5, 5.0), zk.restart, server)
        play.world.run_for(5.5)
    play.unharmed(before, "a connection was lost for a moment")


def outage(play: Play) -> None:
    """Invariant 9: without ZooKeeper, for however long, no driver is restarted while the nodes see each other."""
    before = play.settled()
    zk, length_s = play.world.zk, play.random.uniform(3.0, 40.0)
    if play.random.random() < 0.7:
        for server in range(3):
            zk.kill(server)
        play.world.run_for(length_s)
        for server in range(3):
            zk.restart(server)
    else:
        zk.stall_commits(length_s)
        play.world.run_for(length_s)
    play.unharmed(before, f"ZooKeeper was away for {length_s:.1f} s")


def darkness(play: Play) -> None:
    """Nobody hears ZooKeeper or anybody else: every driver ends by its deadline."""
    play.settled()
    for server in range(3):
        play.world.zk.kill(server)
    for node in play.nodes:
        play.faults.cut_lan_of(node.name)
    dark_s = play.world.now_s
    play.world.run_for(DARK_S_MAX)
    for driver in play.around.drivers.living():
        play.oracles.violated(f"{driver} lives {play.world.now_s - dark_s:.1f} s after it could hear anybody")


def expulsion(play: Play) -> None:
    play.settled()
    for _ in range(play.random.randrange(1, 3)):
        play.world.run_for(play.random.uniform(0.0, 6.0))
        play.faults.expel()


def garbage(play: Play) -> None:
    """Invariant 21: bytes that nobody can read harm one job at most."""
    before = play.settled(count=play.random.randrange(2, 4))
    victim = _victim(play, before)
    strewer = Garbage(play.world, victim, play.oracles, play.random)
    for _ in range(play.random.randrange(1, 6)):
        play.world.run_for(play.random.uniform(0.0, 3.0))
        play.faults.names.append(strewer.strew())
        if play.random.random() < 0.3:
            leaders = [node for node in play.nodes if node.leading()]
            if leaders:
                leaders[0].crash()
    play.unharmed([driver for driver in before if driver.job != victim], f"somebody wrote garbage into {victim}")


def _victim(play: Play, before: list[Driver]) -> JobId:
    """One that runs, or one that was cancelled, and must not come back to life."""
    victim = play.random.choice(before).job
    if play.random.random() < 0.6:
        return victim
    if play.random.random() < 0.5:
        play.people.say(play.world.now_s, victim, Desired.CANCEL)
    else:
        play.new_job(play.world.now_s, Behaviour(End.FINISHED, 0.5, 1.0), "exponential")
        victim = play.jobs[-1]
    ids = (victim, JobId(f"{victim}b"))  # whichever of the two was first
    play.world.run_until(lambda: any(play.oracles.job(id).final for id in ids), within_s=15.0, what="the end of a job")
    return next(id for id in ids if play.oracles.job(id).final)


KINDS: dict[str, Callable[[Play], None]] = {
    "handover": handover,
    "storm": storm,
    "lease": lease,
    "leader": leader,
    "failsafe": failsafe,
    "ending": ending,
    "words": words,
    "failover": failover,
    "mishap": mishap,
    "blip": blip,
    "outage": outage,
    "darkness": darkness,
    "expulsion": expulsion,
    "garbage": garbage,
}

TURNS = (
    *("words", "storm", "mishap", "failsafe"),
    *("handover", "failover", "ending", "garbage"),
    *("handover", "leader", "lease", "failsafe"),
    *("outage", "expulsion", "blip", "darkness"),
)
"""A kind for each seed, in turn."""
