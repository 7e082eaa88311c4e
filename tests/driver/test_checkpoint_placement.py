"""Which checkpoint belongs to which query."""

import threading

import pytest

from holdfast.driver.checkpoint_placement import Places, directory_of
from holdfast.errors import Refused


@pytest.mark.parametrize("name", ["clicks", "clicks.v2", "Größen", "a_b-c", "k=v", "_clicks", "query-one"])
def test_an_ordinary_name_is_its_own_directory(name: str) -> None:
    assert directory_of(name) == name


ODD = [
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


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_cannot_lead_out_of_the_root_nor_into_what_is_somebody_elses(name: str) -> None:
    directory = directory_of(name)
    assert directory != name
    assert "/" not in directory and not directory.startswith((".", "_holdfast")) and len(directory) < 100
    directory.encode()


def test_no_two_names_share_a_directory() -> None:
    names = [*ODD, "a-b", "a_b", "x" * 299, "query", "holdfast"]
    assert len({directory_of(name) for name in names}) == len(names)


def test_queries_without_a_name_are_numbered_by_the_order_of_starts() -> None:
    places = Places("file:///place/")
    assert [places.unnamed(), places.unnamed()] == ["file:///place/query-1", "file:///place/query-2"]
    assert places.named("clicks") == "file:///place/clicks"


def test_a_query_that_did_not_start_gives_its_number_back() -> None:
    places = Places("/place")
    places.give_back(places.unnamed())
    assert places.unnamed() == "/place/query-1"
    places.give_back(places.named("clicks"))
    assert places.unnamed() == "/place/query-2"


def test_queries_without_a_name_cannot_be_told_apart_if_several_threads_start_them() -> None:
    places = Places("/place")
    places.unnamed()
    said: list[str] = []

    def start() -> None:
        try:
            places.unnamed()
        except Refused as error:
            said.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert said and "name them with queryName" in said[0]
    assert places.named("clicks") == "/place/clicks"
