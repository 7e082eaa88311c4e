"""Checkpoints that a real Spark wrote, created once per session."""

import pytest

from tests.harness.spark_checkpoints import INPUT_FILES, SINKS, SparkQueryFolder, run_spark


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SparkQueryFolder]:
    """Return a checkpoint of each kind. One more input file waits. A test that changes one restores it or uses a copy."""
    root = tmp_path_factory.mktemp("completed")
    run_spark(root, "make", str(INPUT_FILES))
    return {kind: SparkQueryFolder(kind, root / kind) for kind in SINKS}


@pytest.fixture(scope="session")
def killed(completed: dict[str, SparkQueryFolder], tmp_path_factory: pytest.TempPathFactory) -> dict[str, SparkQueryFolder]:
    """Return copies as they look after a driver was killed in its newest batch."""
    root = tmp_path_factory.mktemp("killed")
    queries = {kind: query.copy(root / kind) for kind, query in completed.items()}
    for query in queries.values():
        query.drop_newest_commit()
    return queries
