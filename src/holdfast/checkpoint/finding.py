"""One thing that is wrong with a checkpoint."""

from dataclasses import dataclass

LOST = "is not there, and its checksums are: Spark cannot write it anew"


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    """Relative to the query's place, or to the sink's."""
    problem: str
    """The rest of a sentence that begins with the file."""
    harms: bool = True
    """False if nothing that runs from now on reads that file."""
    torn_batch: int | None = None
    """The batch, if all that is wrong is that its offsets, the newest ones, are torn and it was not committed."""

    def __str__(self) -> str:
        return f"{self.file} {self.problem}"
