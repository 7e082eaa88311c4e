"""What signatures look at, and what they find."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.explain.causes import Causes, Link
from holdfast.explain.happening import Happening


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that stopped in one instant."""

    onset_ms: int
    servers: tuple[str, ...]
    spread_ms: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    signature: str
    title: str
    explanation: str
    advice: str
    confidence: float
    evidence: tuple[Happening, ...]
    """What shows it, in the order of time."""
    symptom: Happening | None = None
    """The one that is explained by its chain, if it is not the last."""
    issues: tuple[str, ...] = ()
    """Where it is known from."""
    chain: tuple[Link, ...] = ()
    groups: tuple[Group, ...] = ()
    root: bool = False

    @property
    def begin_ms(self) -> int:
        return min(one.begin_ms for one in self.evidence)

    @property
    def end_ms(self) -> int:
        return max(max(one.end_ms, one.last_ms) for one in self.evidence)

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(sorted({one.component for one in self.evidence}))


@dataclass(frozen=True, slots=True)
class Case:
    happenings: Sequence[Happening]
    """In the order of time, repetitions as one."""
    causes: Causes
    kinds: dict[str, list[Happening]] = field(default_factory=dict)

    @classmethod
    def of(cls, happenings: Sequence[Happening], causes: Causes) -> "Case":
        kinds: dict[str, list[Happening]] = {}
        for one in happenings:
            kinds.setdefault(one.kind, []).append(one)
        return cls(happenings, causes, kinds)

    def all(self, *kinds: str) -> list[Happening]:
        """In the order of time."""
        return sorted((one for kind in kinds for one in self.kinds.get(kind, ())), key=lambda one: (one.begin_ms, one.end_ms))

    def near(self, one: Happening, before_ms: int, after_ms: int, *kinds: str) -> list[Happening]:
        begin, end = one.begin_ms - before_ms, one.begin_ms + after_ms
        return [other for other in self.all(*kinds) if begin <= other.begin_ms <= end]


def ranked(case: Case, found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """One is the root: the one that shows what most chains begin with; else the one that began first."""
    chained = [replace(one, chain=case.causes.chain(_last(one))) for one in found]
    beginnings = [id(one.chain[0].happening) for one in chained]

    def begun_by(one: Diagnosis) -> int:
        mine = {id(happening) for happening in one.evidence}
        return sum(beginning in mine for beginning in beginnings)

    order = sorted(chained, key=lambda one: (-begun_by(one), one.begin_ms, -one.confidence, one.signature))
    if order:
        order[0] = replace(order[0], root=True)
    return sorted(order, key=lambda one: (not one.root, -one.confidence, one.begin_ms, one.signature))


def _last(diagnosis: Diagnosis) -> Happening:
    return diagnosis.symptom or max(diagnosis.evidence, key=lambda one: one.begin_ms)


def seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"
