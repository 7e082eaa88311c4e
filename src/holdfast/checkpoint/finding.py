"""Finding: one problem of a checkpoint."""

from dataclasses import dataclass

from holdfast.checkpoint.damage_rules import RULES, DamageRule

DAMAGED, UNKNOWN, REMARK = "damaged", "unknown", "remark"
ONLY_CHECKSUM_LEFT = "is missing, but its checksum file exists: Spark cannot write the file again"


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    """Path relative to the checkpoint of the query, or to the output of the sink."""
    problem: str
    """Problem, as the rest of a sentence that starts with the file."""
    kind: str
    """`damaged`: a rule proves damage. `unknown`: the checkpoint cannot be judged. `remark`: Spark starts without this file."""
    rule: str = ""
    """Name of the rule that proves the damage; empty for the other kinds."""
    torn_batch: int | None = None
    """Newest batch, if the only problem is that its offsets are torn and it was not committed."""
    has_copy: bool = False
    """True if the problem is a path to a file elsewhere of which the checkpoint has a copy."""

    def __post_init__(self) -> None:
        is_valid = self.rule in RULES if self.kind == DAMAGED else not self.rule and self.kind in (UNKNOWN, REMARK)
        if not is_valid:
            raise ValueError(f"invalid finding about {self.file}: kind {self.kind!r}, rule {self.rule!r}")

    def __str__(self) -> str:
        return f"{self.file} {self.problem}"

    @property
    def harms(self) -> bool:
        """Return True if the finding proves damage."""
        return self.kind == DAMAGED

    @property
    def effect(self) -> str:
        """Return the effect of the damage on the query; empty for the other kinds."""
        return RULES[self.rule].effect if self.rule else ""

    @property
    def spark(self) -> str:
        """Return the method of Spark that proves the damage; empty for the other kinds."""
        return RULES[self.rule].spark if self.rule else ""


def damage(rule: DamageRule, file: str, problem: str, *, torn_batch: int | None = None) -> Finding:
    return Finding(file, problem, DAMAGED, rule.name, torn_batch)


def doubt(file: str, problem: str) -> Finding:
    """Return the reason why a part of the checkpoint cannot be judged."""
    return Finding(file, problem, UNKNOWN)


def remark(file: str, problem: str) -> Finding:
    return Finding(file, problem, REMARK)
