"""The pass over bytes: the same compiled and not."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.explain.library import library
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.record_scan import Mode, Swept, sweep

KNOWN = library()
_LINES = st.sampled_from(
    [
        b"2016-01-19 13:13:09,418 - WARN  [SyncThread:1:F@3] - fsync-ing the write ahead log in SyncThread:1 took 7ms",
        b"[2018-06-30 09:34:54,799] INFO zookeeper state changed (Expired) (org.I0Itec.zkclient.ZkClient)",
        b"15:19:57 JM 2 gives up leadership",
        b"\t15:20:07 JM 1 recovers",
        b"\t\tAttempting to recover job 61bca496065cd05e4263070a5e923a05.",
        b"        at java.lang.Thread.run(Thread.java:748)",
        b"at java.lang.Thread.run(Thread.java:748)",
        b"Caused by: java.io.EOFException",
        b"And then we saw this:",
        b'{"event": "leading", "time": "2026-11-16T12:00:01Z"}',
        b"2024-05-01T10:00:00.123456789Z stdout F 2024-05-01 10:00:00,123 INFO  o.a.f.Some - switched from state",
        b"2024-05-01T10:00:00.123456789Z stderr F \tat java.lang.Thread.run(Thread.java:748)",
        b"\xff\xfe\x00\x01 Expiring session 0x1",
        b"",
        b"   ",
        b"\r",
    ]
)
_PARTS = st.sampled_from(["12:34", "02:34", "12:3", " - ", " -", "a2 9", "a1 9", "a2 x", "x", "y", "<", ">", "0", " ", "b"])


def _fits(shapes: list[str], text: bytes) -> int:
    table = header_dfa.compiled(shapes)
    state, best = header_dfa.FIRST, -1
    for byte in text:
        state = int(table.next[state, byte])
        if state == header_dfa.DEAD:
            break
        if table.fits[state] >= 0:
            best = int(table.fits[state])
    return best


def test_of_several_shapes_that_fit_the_first_counts_though_it_is_longer() -> None:
    shapes = ["99:99 - ", "99:99", "a+ 9", "x_y", "<~>"]
    assert _fits(shapes, b"12:34 - x") == 0
    assert _fits(shapes, b"12:34 + x") == 1
    assert _fits(shapes, b"June 3") == 2
    assert _fits(shapes, b"x  y") == _fits(shapes, b"xy") == 3
    assert _fits(shapes, b"<anything> else") == 4
    assert _fits(shapes, b"12-34") == -1


@settings(max_examples=60, deadline=None)
@given(st.lists(_LINES, max_size=30), st.sampled_from(list(Mode)), st.booleans(), st.booleans())
def test_compiled_and_plain_find_the_same(lines: list[bytes], mode: Mode, ended: bool, hold: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    shapes, wrappers = KNOWN.formats.shapes(mode), KNOWN.formats.wrappers
    plain, compiled = (
        sweep(data, len(data), mode, shapes, wrappers=wrappers, compiled=compiled, hold_last=hold) for compiled in (False, True)
    )
    for name in plain.__slots__:
        assert np.array_equal(getattr(plain, name), getattr(compiled, name)), name


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(st.lists(_PARTS, max_size=4).map("".join), min_size=1, max_size=9), ended=st.booleans())
@example(lines=["12:34", "12:34 - x"], ended=True)  # the first ends before it is known that it is not like the second
@example(lines=["a2 9", "a1 9"], ended=True)
def test_what_a_line_begins_like_does_not_depend_on_the_lines_before_it(lines: list[str], ended: bool) -> None:
    """A line is compared with the last record first: digits are alike, unless a shape names one."""
    shapes = header_dfa.compiled(["99:99 - ", "99:99", "a2 9", "x_y", "<~>", "0"])
    each = [line.encode() for line in lines]
    together = _swept(b"\n".join(each) + (b"\n" if ended else b""), shapes)
    alone = [_swept(line, shapes) for line in each]
    assert together.formats.tolist() == [format for one in alone for format in one.formats.tolist()]
    assert together.looks.tolist() == [look for one in alone for look in one.looks.tolist()]


def _swept(data: bytes, shapes: header_dfa.Shapes) -> Swept:
    return sweep(data, len(data), Mode.LOG, shapes, wrappers=KNOWN.formats.wrappers, compiled=False)


def test_what_differs_in_numbers_alone_looks_alike() -> None:
    lines = [
        b"2016-01-19 13:13:09,418 - WARN  [SyncThread:1:FileTxnLog@334] - took 7ms of session 0x15a1",
        b"2017-02-20 14:14:10,519 - WARN  [SyncThread:3:FileTxnLog@334] - took 1234ms of session 0xbeef1",
        b"2017-02-20 14:14:10,519 - WARN  [SyncThread:3:FileTxnLog@334] - gave 1234ms of session 0xbeef1",
    ]
    first, second, third = _looks(lines)
    assert first == second != third


def test_a_unit_after_a_number_changes_with_it_and_looks_the_same() -> None:
    lines = [
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_3 stored (estimated size 93.0 B, free 1.2 GiB)",
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_47 stored (estimated size 5.2 KB, free 434.4 MiB)",
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_47 kept (estimated size 5.2 KB, free 434.4 MiB)",
    ]
    first, second, third = _looks(lines)
    assert first == second != third
    ending = [line.replace(b")", b"") for line in lines]
    assert len(set(_looks(ending))) == 2


def test_only_the_beginning_of_a_long_line_is_looked_at() -> None:
    """What is read of it after the end of a range depends on the range."""
    beginning = b"2016-01-19 13:13:09,418 INFO a.B - word" + b" word" * 1000
    one, other, short = _looks([beginning, beginning + b" and more", beginning[:200]])
    assert one == other != short


def _looks(lines: list[bytes]) -> list[int]:
    looks: list[int] = _swept(b"\n".join(lines), KNOWN.formats.shapes(Mode.LOG)).looks.tolist()
    return looks
