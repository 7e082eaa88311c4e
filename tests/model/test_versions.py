"""Spec versions: trial, acceptance and rollback."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.versions import FIRST_VERSION, NO_VERSION, Versions

numbers = st.integers(FIRST_VERSION, 5)
STEPS = st.lists(st.tuples(st.sampled_from(["begin", "accept", "roll back"]), numbers), max_size=12)


def apply_steps(steps: list[tuple[str, int]]) -> list[Versions]:
    """Return the versions after each step of a leader. A rollback without a trial changes nothing."""
    versions, first = Versions(), True
    history = [versions]
    for step, number in steps:
        if step == "begin":
            versions, first = versions.start_attempt(number, first=first), False
        elif step == "accept":
            versions = versions.accept()
        elif versions.on_trial:
            versions = versions.roll_back()
        history.append(versions)
    return history


@given(STEPS)
def test_rejected_version_is_never_current_or_fallback(steps: list[tuple[str, int]]) -> None:
    for versions in apply_steps(steps):
        assert versions.fallback != versions.current
        assert versions.rejected != versions.current
        assert NO_VERSION in (versions.fallback, versions.rejected)


@given(STEPS, numbers)
def test_next_attempt_runs_the_requested_version_unless_it_was_rejected(steps: list[tuple[str, int]], requested: int) -> None:
    versions = apply_steps(steps)[-1]
    assert versions.next_version(requested) == (versions.current if requested == versions.rejected else requested)
    assert versions.start_attempt(requested, first=False).current == versions.next_version(requested)


@given(STEPS)
def test_rollback_returns_only_to_accepted_versions(steps: list[tuple[str, int]]) -> None:
    accepted: set[int] = {FIRST_VERSION}
    before = Versions()
    for (step, _), versions in zip(steps, apply_steps(steps)[1:], strict=True):
        if not versions.on_trial:
            accepted.add(versions.current)
        if step == "roll back" and before.on_trial:
            assert versions.current in accepted
        before = versions
