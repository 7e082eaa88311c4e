"""Checkpoints of a real Spark, made once."""

import pytest

from tests.harness.spark_checkpoints import FILES, SINKS, Place, spark


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """By kind. There is one more input file than they have read. Whoever changes one changes it back, or takes a copy."""
    root = tmp_path_factory.mktemp("made")
    spark(root, "make", str(FILES))
    return {kind: Place(kind, root / kind) for kind in SINKS}


@pytest.fixture(scope="session")
def killed(made: dict[str, Place], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """The same as if their drivers had been killed in their newest batch."""
    root = tmp_path_factory.mktemp("killed")
    places = {kind: place.copied(root / kind) for kind, place in made.items()}
    for place in places.values():
        place.kill_before_its_effect()
    return places
