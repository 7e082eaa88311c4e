"""Which version runs next."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.versions import FIRST, NONE, Versions

numbers = st.integers(FIRST, 5)
STEPS = st.lists(st.tuples(st.sampled_from(["begin", "accept", "go back"]), numbers), max_size=12)


def walk(steps: list[tuple[str, int]]) -> list[Versions]:
    """What a leader can do, in any order; to go back needs a trial."""
    versions, first = Versions(), True
    seen = [versions]
    for step, number in steps:
        if step == "begin":
            versions, first = versions.begin(number, first=first), False
        elif step == "accept":
            versions = versions.accept()
        elif versions.on_trial:
            versions = versions.go_back()
        seen.append(versions)
    return seen


@given(STEPS)
def test_what_comes_back_is_never_what_has_just_failed(steps: list[tuple[str, int]]) -> None:
    for versions in walk(steps):
        assert versions.fallback != versions.current
        assert versions.rejected != versions.current
        assert NONE in (versions.fallback, versions.rejected)


@given(STEPS, numbers)
def test_the_next_attempt_runs_what_is_wanted_unless_that_has_failed(steps: list[tuple[str, int]], wanted: int) -> None:
    versions = walk(steps)[-1]
    assert versions.next(wanted) == (versions.current if wanted == versions.rejected else wanted)
    assert versions.begin(wanted, first=False).current == versions.next(wanted)


@given(STEPS)
def test_only_what_has_been_accepted_or_was_there_before_is_gone_back_to(steps: list[tuple[str, int]]) -> None:
    accepted: set[int] = {FIRST}
    before = Versions()
    for (step, _), versions in zip(steps, walk(steps)[1:], strict=True):
        if not versions.on_trial:
            accepted.add(versions.current)
        if step == "go back" and before.on_trial:
            assert versions.current in accepted
        before = versions
