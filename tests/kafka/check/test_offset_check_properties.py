"""What the offset guard never does, against a log whose every record is known."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.kafka import Finding, Kind, Memory, Partition, Position, Sighted, Weight, judge, remember, verdict
from holdfast.kafka.check.broker_snapshot import History, SightedPartition, SightedTopic

HERE = Partition("t", 0)


@dataclass(frozen=True)
class World:
    """One partition, as it is: records by the epoch that wrote them, and a name for each that no other record has."""

    id: str = "id-0"
    epoch: int = 0
    earliest: int = 0
    records: tuple[tuple[int, int], ...] = ()
    written: int = 0

    @property
    def latest(self) -> int:
        return len(self.records)

    def there(self) -> dict[int, int]:
        return {offset: name for offset, (_, name) in enumerate(self.records) if offset >= self.earliest}

    def append(self, count: int) -> "World":
        more = tuple((self.epoch, self.written + each) for each in range(count))
        return replace(self, records=self.records + more, written=self.written + count)

    def elect(self) -> "World":
        return replace(self, epoch=self.epoch + 1)

    def truncate(self, count: int) -> "World":
        """A leader takes over that has fewer records."""
        end = max(self.earliest, self.latest - count)
        return replace(self, epoch=self.epoch + 1, records=self.records[:end])

    def delete(self, count: int) -> "World":
        return replace(self, earliest=min(self.latest, self.earliest + count))

    def recreate(self, count: int) -> "World":
        return World(id=f"{self.id}'", written=self.written).append(count)

    def sighted(self, asked: int | None) -> Sighted:
        history = None
        if asked is not None and self.epoch > asked:
            end = next((offset for offset, (epoch, _) in enumerate(self.records) if epoch > asked), self.latest)
            history = History(asked, end)
        partition = SightedPartition(self.earliest, self.latest, 1, self.epoch, history)
        return Sighted({"t": SightedTopic(self.id, {0: partition})})


@dataclass
class Job:
    next: int = 0
    read: dict[int, int] = field(default_factory=dict)
    """Record by offset, of all that it has read."""
    looked: dict[int, int] = field(default_factory=dict)
    """The same at the last look that found everything in order."""
    seen: dict[int, int] = field(default_factory=dict)
    """All that was in the log then."""
    memory: Memory = field(default_factory=Memory)

    def read_on(self, world: World, count: int) -> None:
        """Spark fails by itself when it is out of range; then it reads nothing."""
        if world.earliest <= self.next <= world.latest:
            until = min(world.latest, self.next + count)
            self.read |= {offset: name for offset, name in world.there().items() if self.next <= offset < until}
            self.next = until

    def look(self, world: World, begun: int = 0) -> tuple[Finding, ...]:
        """With so many records, of those that it has read, in a batch that is not committed."""
        saved = {HERE: Position(max(0, self.next - begun), self.next)}
        sighted = world.sighted(self.memory.epochs().get(HERE))
        findings = judge(saved, self.memory, sighted)
        self.memory = remember(self.memory, saved, sighted, findings)
        if verdict(findings) in (None, Weight.NOTE):
            self.looked, self.seen = dict(self.read), {offset: name for offset, (_, name) in enumerate(world.records)}
        return findings

    def vanished(self, world: World) -> int:
        """Not those that were deleted after they had been read."""
        there = {name for _, name in world.records}
        return sum(1 for name in self.read.values() if name not in there)

    def skipped(self, world: World, start: int) -> int:
        known = set(self.read.values())
        return sum(1 for offset, name in world.there().items() if offset < start and name not in known)

    def repeated(self, world: World, start: int) -> int:
        known = set(self.read.values())
        return sum(1 for offset, name in world.there().items() if offset >= start and name in known)


counts = st.integers(0, 12)
harmless = st.one_of(
    st.tuples(st.just("append"), counts), st.tuples(st.just("elect"), st.just(0)), st.tuples(st.just("read"), counts)
)
faults = st.tuples(st.sampled_from(["truncate", "delete", "recreate"]), st.integers(1, 20))
anything = st.lists(st.one_of(harmless, harmless, faults, st.tuples(st.just("look"), st.just(0))), max_size=25)


def happen(world: World, job: Job, what: str, count: int) -> World:
    if what == "read":
        job.read_on(world, count)
        return world
    return world.elect() if what == "elect" else getattr(world, what)(count)


@given(st.lists(harmless, max_size=25), st.data())
@settings(deadline=None)
def test_never_finds_fault_with_a_log_that_only_grows(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    world, job = World(), Job()
    for what, count in steps:
        world = happen(world, job, what, count)
        if data.draw(st.booleans()):
            assert {finding.kind for finding in job.look(world)} <= {Kind.FIRST_SIGHT, Kind.MOVED}


@given(anything, counts)
@settings(max_examples=500, deadline=None)
def test_never_lets_a_job_go_on_past_a_place_whose_record_is_not_the_one_that_was_seen_there(
    steps: list[tuple[str, int]], begun: int
) -> None:
    world, job = World().append(10), Job()
    job.look(world)
    for what, count in [*steps, ("look", 0)]:
        if what != "look":
            world = happen(world, job, what, count)
            continue
        there = {name for _, name in world.records}
        known = job.looked | {offset: name for offset, name in job.seen.items() if offset < job.next}
        gone = set(known.values()) - there
        overtaken = world.earliest > max(0, job.next - begun)
        beyond = job.next > world.latest
        weight = verdict(job.look(world, begun))
        if gone or overtaken:
            assert weight is Weight.STOP
            return
        assert weight in (Weight.WAIT, Weight.STOP) or not beyond


@given(st.lists(harmless, max_size=10), faults, st.lists(harmless, max_size=6))
@settings(max_examples=500, deadline=None)
def test_never_tells_a_number_that_is_not_right_to_the_record(
    before: list[tuple[str, int]], fault: tuple[str, int], after: list[tuple[str, int]]
) -> None:
    """With a look right before a fault; after it the job does not read on."""
    world, job = World().append(10), Job()
    for what, count in before:
        world = happen(world, job, what, count)
    job.look(world)
    unread = set(world.there().values()) - set(job.read.values())
    world = happen(world, job, *fault)
    for what, count in after:
        world = world if what == "read" else happen(world, job, what, count)
    gone_unread = len(unread - set(world.there().values()))
    for finding in job.look(world):
        if finding.kind is Kind.FIRST_SIGHT:
            continue
        if finding.vanished is not None and not finding.vanished_more:
            assert finding.vanished == job.vanished(world)
        if finding.lost is not None:
            assert finding.lost == gone_unread
        choices = ((job.next, finding.keep), (world.earliest, finding.from_earliest), (world.latest, finding.from_latest))
        for start, told in choices:
            if told is not None:
                assert (told.skipped, told.repeated) == (job.skipped(world, start), job.repeated(world, start))
        if finding.mends is not None:
            assert (job.skipped(world, finding.mends), job.repeated(world, finding.mends)) == (0, 0)


@given(st.lists(harmless, max_size=15), st.integers(0, 14))
@settings(deadline=None)
def test_never_stops_a_sound_job_because_of_a_leader_that_is_behind_the_times(steps: list[tuple[str, int]], ago: int) -> None:
    worlds, job = [World().append(10)], Job()
    for what, count in steps:
        worlds.append(happen(worlds[-1], job, what, count))
    job.look(worlds[-1])
    remembered = job.memory
    stale = worlds[max(0, len(worlds) - 1 - ago)]
    findings = job.look(stale)
    assert verdict(findings) in (None, Weight.NOTE, Weight.WAIT)
    if stale.epoch < worlds[-1].epoch and remembered.epochs():
        assert job.memory == remembered


@given(anything)
@settings(deadline=None)
def test_never_remembers_what_it_has_found_wrong(steps: list[tuple[str, int]]) -> None:
    world, job = World().append(10), Job()
    for what, count in steps:
        if what != "look":
            world = happen(world, job, what, count)
            continue
        remembered = job.memory
        if verdict(job.look(world)) in (Weight.WAIT, Weight.STOP):
            assert job.memory == remembered
