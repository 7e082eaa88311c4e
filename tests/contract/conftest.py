"""Fixture with the backend under test."""

from collections.abc import Iterator

import pytest

from tests.contract.backends import BACKENDS, Backend

NAMES = [pytest.param(name, marks=[pytest.mark.real] if name.startswith("real") else []) for name in sorted(BACKENDS)]


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    backend = BACKENDS[request.param](request)
    try:
        yield backend
    finally:
        backend.close()
