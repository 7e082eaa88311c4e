"""What a script gets of its command line."""

import argparse
import copy
import pickle

import pytest

from holdfast.driver_protocol.environment import Environment
from holdfast.errors import Refused
from holdfast.job.arguments import Arguments, MissingArgument
from holdfast.job.context import Context


def test_names_take_the_next_word_or_what_follows_an_equals_sign() -> None:
    args = Arguments(["--input", "/a b", "--rows-per-second=5", "--empty=", "--equation", "a=b"])
    assert (args.input, args.rows_per_second, args.empty, args.equation) == ("/a b", "5", "", "a=b")


def test_a_name_without_a_value_is_a_flag() -> None:
    args = Arguments(["--verbose", "--input", "x", "--last"])
    assert (args.verbose, args.input, args.last) == (True, "x", True)


def test_values_may_begin_with_one_dash_and_those_with_two_need_an_equals_sign() -> None:
    args = Arguments(["--offset", "-5", "--rule=--strict"])
    assert (args.offset, args.rule) == ("-5", "--strict")


def test_what_stands_alone_is_counted() -> None:
    args = Arguments(["copy", "--to", "b", "ä ö", "--", "--to", "c"])
    assert list(args) == ["copy", "ä ö", "--to", "c"]
    assert (args[0], args[-1], len(args), args.to) == ("copy", "c", 4, "b")
    with pytest.raises(IndexError, match="argument 5 is missing"):
        args[4]


def test_a_missing_argument_is_named_in_a_sentence() -> None:
    with pytest.raises(Refused, match=r"the argument --rows-per-second is missing: this script needs it"):
        _ = Arguments([]).rows_per_second
    with pytest.raises(MissingArgument):
        _ = Arguments([]).input
    assert getattr(Arguments([]), "input", "here") == "here"
    assert "rows-per-second" in Arguments(["--rows-per-second", "1"])
    assert "input" not in Arguments([])


def test_of_a_repeated_name_the_last_counts() -> None:
    assert Arguments(["--input", "a", "--input", "b"]).input == "b"


def test_arguments_and_their_context_go_where_closures_go() -> None:
    args = Arguments(["--input", "x", "y"])
    for other in (copy.copy(args), copy.deepcopy(args), pickle.loads(pickle.dumps(args))):
        assert other.input == "x" and list(other) == ["y"]
    ctx = Context(Environment(job="j1", attempt=4), args)
    ctx.__dict__["spark"] = object()  # what a real one holds cannot be pickled
    sent = pickle.loads(pickle.dumps(ctx))
    assert (sent.job, sent.attempt, sent.args.input) == ("j1", 4, "x")
    assert "spark" not in sent.__dict__


def test_a_parser_of_the_scripts_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.job import context

    monkeypatch.setattr("sys.argv", ["x.py", "--rows", "3"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    assert context(parser).args.rows == 3
