"""How a schedule goes: who is there, which jobs, what happens to them, and what is asked in the end."""

import random
from collections.abc import Callable

from holdfast.model.job import Desired, Spec
from holdfast.model.names import JobId
from holdfast.plan.keeping import Keep
from tests.sim.jobs.drivers import Behaviour, Driver, Drivers, End
from tests.sim.jobs.failsafe_scripts import Scripts
from tests.sim.jobs.garbage import Garbage
from tests.sim.jobs.node import JobNode, Kit, Surroundings
from tests.sim.jobs.oracles import JobOracles
from tests.sim.jobs.peers import Lan
from tests.sim.jobs.people import People
from tests.sim.nodes import TICK_S, TIMEOUT_S, TIMING
from tests.sim.world import Stuck, World

FAULTS_UNTIL_S = 24.0
HEALTHY_WITHIN_S = 45.0
STAYS_HEALTHY_S = 2.0
SAMPLE_S = 0.25
CRASH_S_MAX = 4.0
AGENT_S_MAX = 2.0
LOSS_S_MAX = TIMEOUT_S + 2 * TICK_S + TIMING.margin_s + 3.0
WORDS_UNTIL_S = 26.0
"""A word that is said at 14 s is done by then: what has to stop is given four seconds, and a second loss costs some too."""
DARK_S_MAX = TIMEOUT_S - TIMING.margin_s + TIMING.heartbeat_s + TIMING.kill_s + 0.5
"""From the moment when nobody hears anybody any more to the end of the last driver."""


class Play:
    def __init__(self, world: World, kind: str, kit: Kit, rng: random.Random) -> None:
        self.world = world
        self.kind = kind
        self.random = rng
        self.around = Surroundings(Drivers(), kit.storage(world), Lan(world), kit)
        names = ("n1", "n2") if kind in ("storm", "handover") and rng.random() < 0.25 else ("n1", "n2", "n3")
        self.nodes = [JobNode(world, name, self.around, slots=rng.randrange(2 if len(names) == 2 else 1, 4)) for name in names]
        self.oracles = JobOracles(world, self.nodes, self.around)
        self.people = People(world, kit, self.oracles)
        self.faults = Scripts(world, self.nodes, self.around, self.oracles, random.Random(f"{world.seed}/faults"))
        self.jobs: list[JobId] = []
        self.until_s = FAULTS_UNTIL_S
        self.restart_s: float | None = None
        self._healthy = False

    def perform(self, *, lives: bool) -> None:
        for node in self.nodes:
            self.world.at(self.random.uniform(0, 0.5), node.start)
        KINDS_OF_PLAY[self.kind](self)
        self.world.run_for(max(0.0, self.until_s - self.world.now_s))
        self.faults.heal_all()
        if lives:
            self._recover()
        self.people.verdict()
        self.oracles.verdict()

    # Jobs

    def new_jobs(self, count: int, make: Callable[[], Behaviour], until_s: float) -> None:
        for _ in range(count):
            self._new_job(self.random.uniform(0.5, until_s), make())

    def _new_job(self, at_s: float, behaviour: Behaviour, restart: str = "") -> None:
        number = len(self.jobs) + 1
        job = JobId(f"j{number}")
        self.jobs.append(job)
        if not restart:
            restart = "fixed:2:2s" if behaviour.end is End.FAILED and self.random.random() < 0.7 else "exponential"
        spec = Spec(f"name{number}", "job.py", "0" * 64, restart=restart, arguments=behaviour.arguments())
        self.people.submit(at_s, spec, job, f"r{number}")
        if self.random.random() < 0.4:
            again_s = at_s + self.random.choice([0.0, 0.01, 1.0])
            self.people.submit(again_s, spec, JobId(f"{job}b"), f"r{number}", crash=self.random.random() < 0.5)

    def any_behaviour(self) -> Behaviour:
        rng = self.random
        end = rng.choice([None, None, None, None, End.FINISHED, End.FAILED, End.DATA_LOSS])
        return Behaviour(end, rng.uniform(0.2, 12.0), rng.uniform(0.05, 2.0) if rng.random() < 0.8 else 100.0)

    def forever(self) -> Behaviour:
        return Behaviour(None, 0.0, self.random.uniform(0.05, 2.0))

    def finishing(self) -> Behaviour:
        return Behaviour(End.FINISHED, self.random.uniform(1.0, 6.0), 1.0)

    def some_words(self, probability: float) -> None:
        for job in self.jobs:
            if self.random.random() < probability:
                at_s = self.random.uniform(3.0, FAULTS_UNTIL_S)
                desired = self.random.choice([Desired.STOP, Desired.CANCEL, Desired.CANCEL, Desired.RUN])
                self.people.say(at_s, job, desired, again=True)
                if self.random.random() < 0.5:
                    self.people.say(at_s + self.random.uniform(0.0, 8.0), job, Desired.RUN, again=True)

    # With anything allowed

    def storm(self) -> None:
        self.new_jobs(self.random.randrange(1, 4), self.any_behaviour, 6.0)
        self.some_words(0.4)
        for _ in range(self.random.randrange(2, 8)):
            self.faults.random_one(self.random.uniform(1.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)

    def handover(self) -> None:
        self.new_jobs(self.random.randrange(1, 3), self.any_behaviour, 4.0)
        self.some_words(0.4)
        for _ in range(self.random.randrange(1, 4)):
            self.faults.aimed_one()
        for _ in range(self.random.randrange(2)):
            self.faults.random_one(self.random.uniform(3.0, FAULTS_UNTIL_S), FAULTS_UNTIL_S)

    def lease(self) -> None:
        """What can happen between a runner and its lease."""
        self.new_jobs(self.random.randrange(1, 3), self.forever, 2.0)
        faults = self.faults
        scripts = [faults.late_reply, faults.late_look, faults.lonely_server, faults.back_at_the_last_moment]
        starts = [faults.pause_at_the_start, faults.paused_at_the_gate, faults.killed_at_the_fork, faults.late_taker]
        self._script([*scripts, *starts])

    def leader(self) -> None:
        """What can happen between a leader and what it decides."""
        self.new_jobs(self.random.randrange(1, 3), self.any_behaviour, 2.0)
        faults = self.faults
        scripts = [faults.epoch_meanwhile, faults.word_meanwhile, faults.hung_undertaker, faults.leader_dies_in_the_margin]
        self._script(scripts)

    def words(self) -> None:
        """What people say is done, and soon, if nothing is wrong."""
        self.new_jobs(self.random.randrange(1, 4), self.forever, 3.0)
        said: list[tuple[float, JobId]] = []
        for job in self.jobs:
            for _ in range(self.random.randrange(1, 4)):
                at_s = self.random.uniform(0.5, 14.0)
                said.append((at_s, job))
                desired = self.random.choice([Desired.STOP, Desired.CANCEL, Desired.RUN, Desired.RUN])
                self.people.say(at_s, job, desired, again=True)
        self.world.run_for(WORDS_UNTIL_S - self.world.now_s)
        for sentence in self.oracles.ill():
            self.oracles.violated(f"nothing was wrong, and {sentence}")

    def failsafe(self) -> None:
        self.until_s = 36.0
        self.new_jobs(self.random.randrange(1, 3), self.forever, 2.0)
        self._script([self.faults.exile, self.faults.exile, self.faults.exile, self.faults.newcomer, self.faults.unsure_set])

    def ending(self) -> None:
        for node in self.nodes:
            node.keep = Keep(ended_s=3.0)
        self.new_jobs(self.random.randrange(1, 3), self.finishing, 3.0)
        self._script([self.faults.end_unheard])
        if self.random.random() < 0.5:
            self.faults.aimed_one()

    def _script(self, scripts: list[Callable[[], None]]) -> None:
        script = self.random.choice(scripts)
        self.faults.names.append(script.__name__)
        script()

    # With a claim about what must not happen

    def failover(self) -> None:
        """Invariant 8: whatever happens to the leader alone, no driver is restarted."""
        before = self._settled()
        for _ in range(self.random.randrange(1, 4)):
            self.world.run_for(self.random.uniform(0.0, 4.0))
            leaders = [node for node in self.nodes if node.leading()]
            if leaders:
                self._depose(leaders[0])
        self._unharmed(before, "the leader was replaced")

    def _depose(self, leader: JobNode) -> None:
        now_s, world = self.world.now_s, self.world
        match self.random.randrange(4):
            case 0 | 1:
                self.faults.names.append("crash")
                leader.crash()
            case 2 if leader.session is not None:
                self.faults.names.append("end its session")
                world.zk.close_session(leader.session)
            case _:
                self.faults.names.append("stop")
                hang = self.random.random() < 0.3
                world.at(now_s + self.random.uniform(1.0, 14.0), self.faults._stop(leader, hang=hang))

    def mishap(self) -> None:
        """Invariant 20, with figures: one thing happens to one attempt, and soon there is the next one."""
        before = self._settled()
        self.world.run_for(self.random.uniform(0.0, 3.0))
        victim = self.random.choice(before)
        assert victim.runner is not None and victim.watchdog is not None
        at_s, bound_s = self.world.now_s, CRASH_S_MAX
        match self.random.randrange(4):
            case 0:
                self.faults.names.append("its runner is killed")
                victim.machine.kill(victim.runner)
            case 1:
                self.faults.names.append("its watchdog is killed")
                victim.machine.kill(victim.watchdog)
            case 2:
                self.faults.names.append("its runner and its agent are killed")
                victim.machine.kill(victim.runner)
                self.faults.node_of(victim).crash()
                bound_s += AGENT_S_MAX
            case _:
                self.faults.names.append("its machine is lost")
                self.faults.node_of(victim).lose()
                bound_s = LOSS_S_MAX

        def again() -> bool:
            return any(driver is not victim for driver in self.around.drivers.living(victim.job))

        self.world.run_until(again, within_s=bound_s, what=f"another attempt of {victim.job}")
        self.restart_s = self.world.now_s - at_s
        self._unharmed(
            [each for each in before if each.machine is not victim.machine and each is not victim], "another was hurt"
        )

    def blip(self) -> None:
        """G1: a connection that is lost and regained within the session costs nothing."""
        before = self._settled()
        zk = self.world.zk
        for _ in range(self.random.randrange(1, 4)):
            self.world.run_for(self.random.uniform(0.0, 2.0))
            node = self.random.choice(self.nodes)
            match self.random.randrange(4):
                case 0:
                    zk.drop_connections()
                case 1:
                    zk.network.cut(node.name, requests=self.random.random() < 0.5)
                    self.world.at(self.world.now_s + self.random.uniform(0.1, 5.0), zk.network.heal, node.name)
                case 2:
                    zk.change_leader()
                case _:
                    server = self.random.randrange(3)
                    zk.kill(server)
                    self.world.at(self.world.now_s + self.random.uniform(0.5, 5.0), zk.restart, server)
            self.world.run_for(5.5)
        self._unharmed(before, "a connection was lost for a moment")

    def outage(self) -> None:
        """Invariant 9: without ZooKeeper, for however long, no driver is restarted while the nodes see each other."""
        before = self._settled()
        zk, length_s = self.world.zk, self.random.uniform(3.0, 40.0)
        if self.random.random() < 0.7:
            for server in range(3):
                zk.kill(server)
            self.world.run_for(length_s)
            for server in range(3):
                zk.restart(server)
        else:
            zk.stall_commits(length_s)
            self.world.run_for(length_s)
        self._unharmed(before, f"ZooKeeper was away for {length_s:.1f} s")

    def darkness(self) -> None:
        """Nobody hears ZooKeeper or anybody else: every driver ends by its deadline."""
        self._settled()
        for server in range(3):
            self.world.zk.kill(server)
        for node in self.nodes:
            self.faults.cut_lan_of(node.name)
        dark_s = self.world.now_s
        self.world.run_for(DARK_S_MAX)
        for driver in self.around.drivers.living():
            self.oracles.violated(f"{driver} lives {self.world.now_s - dark_s:.1f} s after it could hear anybody")

    def expulsion(self) -> None:
        self._settled()
        for _ in range(self.random.randrange(1, 3)):
            self.world.run_for(self.random.uniform(0.0, 6.0))
            self.faults.expel()

    def garbage(self) -> None:
        """Invariant 21: bytes that nobody can read harm one job at most."""
        before = self._settled(count=self.random.randrange(2, 4))
        victim = self._victim(before)
        garbage = Garbage(self.world, victim, self.oracles, self.random)
        for _ in range(self.random.randrange(1, 6)):
            self.world.run_for(self.random.uniform(0.0, 3.0))
            self.faults.names.append(garbage.strew())
            if self.random.random() < 0.3:
                leaders = [node for node in self.nodes if node.leading()]
                if leaders:
                    leaders[0].crash()
        self._unharmed([driver for driver in before if driver.job != victim], f"somebody wrote garbage into {victim}")

    def _victim(self, before: list[Driver]) -> JobId:
        """One that runs, or one that was cancelled, and must not come back to life."""
        victim = self.random.choice(before).job
        if self.random.random() < 0.6:
            return victim
        if self.random.random() < 0.5:
            self.people.say(self.world.now_s, victim, Desired.CANCEL)
        else:
            self._new_job(self.world.now_s, Behaviour(End.FINISHED, 0.5, 1.0), "exponential")
            victim = self.jobs[-1]
        ids = (victim, JobId(f"{victim}b"))  # whichever of the two was first
        self.world.run_until(lambda: any(self.oracles.job(id).final for id in ids), within_s=15.0, what="the end of a job")
        return next(id for id in ids if self.oracles.job(id).final)

    def _settled(self, count: int | None = None) -> list[Driver]:
        """Jobs that run for ever, all of them running."""
        for node in self.nodes:
            node.be_impatient()
        self.new_jobs(count or self.random.randrange(1, 4), self.forever, 2.0)
        self.world.at(4.0, self._sample)
        self.world.run_until(lambda: self._healthy, within_s=10.0, what="a cluster in which every job runs")
        return self.around.drivers.living()

    def _unharmed(self, before: list[Driver], what: str) -> None:
        self.world.run_for(max(0.0, FAULTS_UNTIL_S - self.world.now_s))
        self.world.run_for(TIMEOUT_S)
        for driver in before:
            if not driver.alive:
                self.oracles.violated(f"{driver} ended because {what}")

    # In the end

    def _recover(self) -> None:
        """Invariants 20 and 23."""
        self._healthy = False
        self.world.at(self.world.now_s + SAMPLE_S, self._sample)
        try:
            self.world.run_until(lambda: self._healthy, within_s=HEALTHY_WITHIN_S)
        except Stuck:
            raise Stuck("; ".join(self.oracles.ill()) or "no leader, or a node that did not join again") from None
        self.world.run_for(STAYS_HEALTHY_S)
        self.oracles.bounded(jobs=len(self.jobs))

    def _sample(self) -> None:
        joined = all(node.agent is not None and node.agent.status.registered for node in self.nodes)
        known = len(self.people.submitted) == len(self.jobs) and not self.oracles.ill()
        self._healthy = joined and known and len(self.oracles.claimants()) == 1
        if not self._healthy:
            self.world.at(self.world.now_s + SAMPLE_S, self._sample)


KINDS_OF_PLAY: dict[str, Callable[[Play], None]] = {
    "handover": Play.handover,
    "storm": Play.storm,
    "lease": Play.lease,
    "leader": Play.leader,
    "failsafe": Play.failsafe,
    "ending": Play.ending,
    "words": Play.words,
    "failover": Play.failover,
    "mishap": Play.mishap,
    "blip": Play.blip,
    "outage": Play.outage,
    "darkness": Play.darkness,
    "expulsion": Play.expulsion,
    "garbage": Play.garbage,
}

KINDS = (
    *("words", "storm", "mishap", "failsafe"),
    *("handover", "failover", "ending", "garbage"),
    *("handover", "leader", "lease", "failsafe"),
    *("outage", "expulsion", "blip", "darkness"),
)
"""A kind for each seed, in turn."""
