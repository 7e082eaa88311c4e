"""What signatures look at, and what they find."""

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.explain.library.signature import Signature
from holdfast.explain.timeline.causes import Causes, Link
from holdfast.explain.timeline.occurrence import Happening


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that stopped in one instant."""

    onset_ms: int
    servers: tuple[str, ...]
    spread_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """That a signature fits, by name."""

    signature: str
    confidence: float
    evidence: tuple[Happening, ...]
    facts: Mapping[str, object] = field(default_factory=dict)
    """What its sentences name."""
    symptom: Happening | None = None
    """The one that is explained by its chain, if it is not the last."""
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    signature: str
    title: str
    explanation: str
    advice: str
    issues: tuple[str, ...]
    confidence: float
    evidence: tuple[Happening, ...]
    """What shows it, in the order of time."""
    chain: tuple[Link, ...]
    groups: tuple[Group, ...]
    root: bool

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
class Skew:
    """A clock that differs from the others."""

    component: str
    behind_ms: int
    error_ms: int
    evidence: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class Case:
    happenings: Sequence[Happening]
    """In the order of time, repetitions as one."""
    causes: Causes
    skews: tuple[Skew, ...] = ()
    kinds: dict[str, list[Happening]] = field(default_factory=dict)
    alike: dict[tuple[str, str], dict[str, list[Happening]]] = field(default_factory=dict)
    """(kind, field) → value → those that have it; made when somebody asks."""

    @classmethod
    def of(cls, happenings: Sequence[Happening], causes: Causes, skews: tuple[Skew, ...] = ()) -> "Case":
        kinds: dict[str, list[Happening]] = {}
        for one in happenings:
            kinds.setdefault(one.kind, []).append(one)
        return cls(happenings, causes, skews, kinds)

    def all(self, *kinds: str) -> list[Happening]:
        return in_order(one for kind in kinds for one in self.kinds.get(kind, ()))

    def near(self, one: Happening, before_ms: int, after_ms: int, *kinds: str, same: str = "") -> list[Happening]:
        """`same`: a field that they have in common with it."""
        found: list[Happening] = []
        for kind in kinds:
            of_kind = self._alike(kind, same).get(one.of(same), []) if same else self.kinds.get(kind, [])
            first = bisect.bisect_left(of_kind, one.begin_ms - before_ms, key=_begin_ms)
            found += of_kind[first : bisect.bisect_right(of_kind, one.begin_ms + after_ms, key=_begin_ms)]
        return in_order(found) if len(kinds) > 1 else found

    def same(self, one: Happening, field: str, *kinds: str) -> list[Happening]:
        """All that have a field in common with it, whenever that was."""
        return [other for kind in kinds for other in self._alike(kind, field).get(one.of(field), [])]

    def _alike(self, kind: str, field: str) -> dict[str, list[Happening]]:
        if (kind, field) not in self.alike:
            groups: dict[str, list[Happening]] = {}
            for one in self.kinds.get(kind, ()):
                groups.setdefault(one.of(field), []).append(one)
            self.alike[kind, field] = groups
        return self.alike[kind, field]


def _begin_ms(one: Happening) -> int:
    return one.begin_ms


def in_order(happenings: Iterable[Happening]) -> list[Happening]:
    return sorted(happenings, key=lambda one: (one.begin_ms, one.end_ms, one.event.file, one.event.offset))


def told(case: Case, found: Iterable[Found], signatures: Mapping[str, Signature]) -> list[Diagnosis]:
    """The root first, then by how sure it is and when it began. One is the root: the one that shows what most chains begin
    with; else the one that began first."""
    chains = [(one, case.causes.chain(one.symptom or in_order(one.evidence)[-1])) for one in found]
    beginnings = Counter(id(chain[0].happening) for _, chain in chains)

    def begun_by(one: Found) -> int:
        return sum(beginnings[number] for number in {id(happening) for happening in one.evidence})

    def order(pair: tuple[Found, tuple[Link, ...]]) -> tuple[int, int, float, str]:
        one = pair[0]
        return -begun_by(one), min(happening.begin_ms for happening in one.evidence), -one.confidence, one.signature

    chains.sort(key=order)
    diagnoses = [_told(one, chain, signatures[one.signature], root=not n) for n, (one, chain) in enumerate(chains)]
    return sorted(diagnoses, key=lambda one: (not one.root, -one.confidence, one.begin_ms, one.signature))


def _told(one: Found, chain: tuple[Link, ...], signature: Signature, *, root: bool) -> Diagnosis:
    facts = dict(one.facts)
    return Diagnosis(
        signature=signature.name,
        title=signature.title.format_map(facts),
        explanation=signature.explanation.format_map(facts),
        advice=signature.advice.format_map(facts),
        issues=signature.issues,
        confidence=one.confidence,
        evidence=tuple(in_order(one.evidence)),
        chain=chain,
        groups=one.groups,
        root=root,
    )


def seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"
