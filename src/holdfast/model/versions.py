"""Spec versions of a job. A new version is on trial until its first batch; if it fails, the job returns to the previous one."""

from dataclasses import dataclass, replace

FIRST_VERSION = 1
NO_VERSION = 0
TRIAL_S = 300.0


@dataclass(frozen=True, slots=True)
class Versions:
    current: int = FIRST_VERSION
    """Version of the last attempt."""
    fallback: int = NO_VERSION
    """Version to return to if the current one fails its trial; NO_VERSION without a trial."""
    rejected: int = NO_VERSION
    """Requested version that has failed its trial."""

    @property
    def on_trial(self) -> bool:
        return self.fallback != NO_VERSION

    def next_version(self, requested: int) -> int:
        """Return the version that the next attempt runs, given the requested version."""
        return self.current if requested == self.rejected else requested

    def start_attempt(self, requested: int, *, first: bool) -> "Versions":
        """Return the versions after the start of an attempt.

        There is no trial for the first attempt of a job, nor if the user returns to the fallback version.
        """
        version = self.next_version(requested)
        if version == self.current:
            return self
        if first or version == self.fallback:
            return Versions(version)
        return Versions(version, fallback=self.fallback or self.current)

    def accept(self) -> "Versions":
        """Return the versions after the current one has committed its first batch."""
        return replace(self, fallback=NO_VERSION)

    def roll_back(self) -> "Versions":
        """Return the versions after the current one has failed its trial."""
        return Versions(self.fallback, rejected=self.current)
