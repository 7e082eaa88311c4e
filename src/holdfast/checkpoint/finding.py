"""One thing that is wrong with a checkpoint."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    """Relative to the query's place, or to the sink's."""
    problem: str
    """The rest of a sentence that begins with the file."""
    harms: bool = True
    """False if nothing that runs from now on reads that file."""
    torn_plan: int | None = None
    """The batch, if all that is wrong is that its plan, the newest one, is torn and it was not committed."""

    def __str__(self) -> str:
        return f"{self.file} {self.problem}"
