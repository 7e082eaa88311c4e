"""Arguments of a script."""

import argparse
import copy
import pickle

import pytest

from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.errors import Refused
from holdfast.job.arguments import Arguments, MissingArgument
from holdfast.job.context import Context


def test_named_argument_takes_the_next_word_or_the_text_after_equals() -> None:
    args = Arguments(["--input", "/a b", "--rows-per-second=5", "--empty=", "--equation", "a=b"])
    assert (args.input, args.rows_per_second, args.empty, args.equation) == ("/a b", "5", "", "a=b")


def test_name_without_value_is_true() -> None:
    args = Arguments(["--verbose", "--input", "x", "--last"])
    assert (args.verbose, args.input, args.last) == (True, "x", True)


def test_value_with_two_dashes_needs_an_equals_sign() -> None:
    args = Arguments(["--offset", "-5", "--rule=--strict"])
    assert (args.offset, args.rule) == ("-5", "--strict")


def test_positional_arguments_are_items() -> None:
    args = Arguments(["copy", "--to", "b", "ä ö", "--", "--to", "c"])
    assert list(args) == ["copy", "ä ö", "--to", "c"]
    assert (args[0], args[-1], len(args), args.to) == ("copy", "c", 4, "b")
    with pytest.raises(IndexError, match="positional argument 5, but only 4 were given"):
        args[4]


def test_missing_argument_is_named_in_the_error() -> None:
    with pytest.raises(Refused, match=r"the script needs the argument --rows-per-second, which was not given"):
        _ = Arguments([]).rows_per_second
    with pytest.raises(MissingArgument):
        _ = Arguments([]).input
    assert getattr(Arguments([]), "input", "here") == "here"
    assert "rows-per-second" in Arguments(["--rows-per-second", "1"])
    assert "input" not in Arguments([])


def test_last_value_of_a_repeated_name_wins() -> None:
    assert Arguments(["--input", "a", "--input", "b"]).input == "b"


def test_arguments_and_context_can_be_pickled() -> None:
    args = Arguments(["--input", "x", "y"])
    for other in (copy.copy(args), copy.deepcopy(args), pickle.loads(pickle.dumps(args))):
        assert other.input == "x" and list(other) == ["y"]
    ctx = Context(DriverEnvironment(job="j1", attempt=4), args)
    ctx.__dict__["spark"] = object()  # a real session cannot be pickled
    sent = pickle.loads(pickle.dumps(ctx))
    assert (sent.job, sent.attempt, sent.args.input) == ("j1", 4, "x")
    assert "spark" not in sent.__dict__


def test_own_parser_reads_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.job import context

    monkeypatch.setattr("sys.argv", ["x.py", "--rows", "3"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    assert context(parser).args.rows == 3
