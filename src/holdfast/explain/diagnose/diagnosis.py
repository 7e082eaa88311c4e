"""Match of a signature, and the diagnosis that is built from it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.explain.library.signature import Signature
from holdfast.explain.timeline.causes import CauseFinder, CauseLink
from holdfast.explain.timeline.occurrence import Occurrence
from holdfast.explain.timeline.timeline import in_order


@dataclass(frozen=True, slots=True)
class StallGroup:
    """Servers that stalled at about the same time."""

    onset_ms: int
    servers: tuple[str, ...]
    spread_ms: int


@dataclass(frozen=True, slots=True)
class SignatureMatch:
    """Result of a detector: a signature, by name, and the occurrences that show it."""

    signature: str
    confidence: float
    evidence: tuple[Occurrence, ...]
    facts: Mapping[str, object] = field(default_factory=dict)
    """Values for the placeholders in the signature's sentences."""
    symptom: Occurrence | None = None
    """Occurrence whose cause chain is shown; the last piece of evidence if None."""
    groups: tuple[StallGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    signature: str
    title: str
    explanation: str
    advice: str
    issues: tuple[str, ...]
    confidence: float
    evidence: tuple[Occurrence, ...]
    """Occurrences that show it, in order of time."""
    chain: tuple[CauseLink, ...]
    groups: tuple[StallGroup, ...]
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


def build_diagnoses(
    matches: Iterable[SignatureMatch], causes: CauseFinder, signatures: Mapping[str, Signature]
) -> list[Diagnosis]:
    """Add cause chains and texts to matches. The root comes first, then the others by confidence and begin.

    The root is the match whose evidence contains the first cause of most chains; of equals, the earliest."""
    chains = [(one, causes.chain(one.symptom or in_order(one.evidence)[-1])) for one in matches]
    first_causes = Counter(id(chain[0].occurrence) for _, chain in chains)

    def chains_begun(one: SignatureMatch) -> int:
        return sum(first_causes[identity] for identity in {id(occurrence) for occurrence in one.evidence})

    def order(pair: tuple[SignatureMatch, tuple[CauseLink, ...]]) -> tuple[int, int, float, str]:
        one = pair[0]
        return -chains_begun(one), min(occurrence.begin_ms for occurrence in one.evidence), -one.confidence, one.signature

    chains.sort(key=order)
    diagnoses = [_build(one, chain, signatures[one.signature], root=not n) for n, (one, chain) in enumerate(chains)]
    return sorted(diagnoses, key=lambda one: (not one.root, -one.confidence, one.begin_ms, one.signature))


def _build(match: SignatureMatch, chain: tuple[CauseLink, ...], signature: Signature, *, root: bool) -> Diagnosis:
    facts = dict(match.facts)
    return Diagnosis(
        signature=signature.name,
        title=signature.title.format_map(facts),
        explanation=signature.explanation.format_map(facts),
        advice=signature.advice.format_map(facts),
        issues=signature.issues,
        confidence=match.confidence,
        evidence=tuple(in_order(match.evidence)),
        chain=chain,
        groups=match.groups,
        root=root,
    )


def format_duration(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"
