"""Finding: one problem of a checkpoint."""

from dataclasses import dataclass

ONLY_CHECKSUM_LEFT = "is missing, but its checksum file exists: Spark cannot write the file again"


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    """Path relative to the checkpoint of the query, or to the output of the sink."""
    problem: str
    """Problem, as the rest of a sentence that starts with the file."""
    harms: bool = True
    """False if no future batch reads the file."""
    torn_batch: int | None = None
    """Newest batch, if the only problem is that its offsets are torn and it was not committed."""

    def __str__(self) -> str:
        return f"{self.file} {self.problem}"
