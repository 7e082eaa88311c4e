"""Which version of its spec a job runs. A new one is on trial until its first batch; if it fails, the last one comes back."""

from dataclasses import dataclass, replace

FIRST = 1
NONE = 0
TRIAL_S = 300.0


@dataclass(frozen=True, slots=True)
class Versions:
    current: int = FIRST
    """What the attempt runs, or ran."""
    fallback: int = NONE
    """While the current one is on trial: the one that comes back if it fails."""
    rejected: int = NONE
    """What people want, and what has failed its trial."""

    @property
    def on_trial(self) -> bool:
        return self.fallback != NONE

    def next(self, wanted: int) -> int:
        """What the next attempt runs."""
        return self.current if wanted == self.rejected else wanted

    def begin(self, wanted: int, *, first: bool) -> "Versions":
        """An attempt begins. The first one of a job has nothing to go back to; nor has one that a person takes back."""
        version = self.next(wanted)
        if version == self.current:
            return self
        if first or version == self.fallback:
            return Versions(version)
        return Versions(version, fallback=self.fallback or self.current)

    def accept(self) -> "Versions":
        """The current one has come to its first batch."""
        return replace(self, fallback=NONE)

    def go_back(self) -> "Versions":
        """The current one has failed its trial."""
        return Versions(self.fallback, rejected=self.current)
