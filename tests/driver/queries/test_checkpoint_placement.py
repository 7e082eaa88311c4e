"""Assignment of checkpoints to queries."""

import threading

import pytest

from holdfast.driver.queries.checkpoint_placement import CheckpointPlacement, checkpoint_directory_name
from holdfast.errors import Refused


@pytest.mark.parametrize("name", ["clicks", "clicks.v2", "Größen", "a_b-c", "k=v", "_clicks", "query-one"])
def test_safe_name_is_used_as_directory_name(name: str) -> None:
    assert checkpoint_directory_name(name) == name


UNSAFE_NAMES = [
    "",
    " ",
    ".",
    "..",
    "../up",
    "a/b",
    "a\\b",
    "a b",
    "a:b",
    "_holdfast",
    "_holdfast2",
    "query-1",
    "query-22",
    "a\nb",
    "x" * 300,
    "\ud800",
]


@pytest.mark.parametrize("name", UNSAFE_NAMES)
def test_unsafe_name_gets_a_safe_directory_below_the_root(name: str) -> None:
    directory = checkpoint_directory_name(name)
    assert directory != name
    assert "/" not in directory and not directory.startswith((".", "_holdfast")) and len(directory) < 100
    directory.encode()


def test_different_names_get_different_directories() -> None:
    names = [*UNSAFE_NAMES, "a-b", "a_b", "x" * 299, "query", "holdfast"]
    assert len({checkpoint_directory_name(name) for name in names}) == len(names)


def test_unnamed_queries_are_numbered_by_the_order_of_starts() -> None:
    placement = CheckpointPlacement("file:///place/")
    assert [placement.next_unnamed_location(), placement.next_unnamed_location()] == [
        "file:///place/query-1",
        "file:///place/query-2",
    ]
    assert placement.location_for_name("clicks") == "file:///place/clicks"


def test_query_that_failed_to_start_releases_its_number() -> None:
    placement = CheckpointPlacement("/place")
    placement.release(placement.next_unnamed_location())
    assert placement.next_unnamed_location() == "/place/query-1"
    placement.release(placement.location_for_name("clicks"))
    assert placement.next_unnamed_location() == "/place/query-2"


def test_unnamed_queries_of_several_threads_are_refused() -> None:
    placement = CheckpointPlacement("/place")
    placement.next_unnamed_location()
    errors: list[str] = []

    def start() -> None:
        try:
            placement.next_unnamed_location()
        except Refused as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert errors and "name each query with queryName" in errors[0]
    assert placement.location_for_name("clicks") == "/place/clicks"
