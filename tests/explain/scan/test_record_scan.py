"""Record scan: formats and templates of records, compiled and plain."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.explain.library import load_library
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.record_scan import FileMode, RecordScan, scan_records

KNOWN = load_library()
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


def _matching_shape(shapes: list[str], text: bytes) -> int:
    table = header_dfa.compile_shapes(shapes)
    state, best = header_dfa.START_STATE, -1
    for byte in text:
        state = int(table.next[state, byte])
        if state == header_dfa.DEAD_STATE:
            break
        if table.accepts[state] >= 0:
            best = int(table.accepts[state])
    return best


def test_first_matching_shape_wins_even_if_it_is_longer() -> None:
    shapes = ["99:99 - ", "99:99", "a+ 9", "x_y", "<~>"]
    assert _matching_shape(shapes, b"12:34 - x") == 0
    assert _matching_shape(shapes, b"12:34 + x") == 1
    assert _matching_shape(shapes, b"June 3") == 2
    assert _matching_shape(shapes, b"x  y") == _matching_shape(shapes, b"xy") == 3
    assert _matching_shape(shapes, b"<anything> else") == 4
    assert _matching_shape(shapes, b"12-34") == -1


@settings(max_examples=60, deadline=None)
@given(st.lists(_LINES, max_size=30), st.sampled_from(list(FileMode)), st.booleans(), st.booleans())
def test_compiled_and_plain_code_find_the_same_records(lines: list[bytes], mode: FileMode, ended: bool, hold: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    shapes, wrappers = KNOWN.formats.header_table(mode), KNOWN.formats.wrapper_table
    plain, compiled = (
        scan_records(data, len(data), mode, shapes, wrappers=wrappers, compiled=compiled, hold_last=hold)
        for compiled in (False, True)
    )
    for name in plain.__slots__:
        assert np.array_equal(getattr(plain, name), getattr(compiled, name)), name


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(lines=st.lists(st.lists(_PARTS, max_size=4).map("".join), min_size=1, max_size=9), ended=st.booleans())
@example(lines=["12:34", "12:34 - x"], ended=True)  # the first line ends before the shapes differ
@example(lines=["a2 9", "a1 9"], ended=True)
def test_format_of_a_line_does_not_depend_on_the_lines_before_it(lines: list[str], ended: bool) -> None:
    """A line is compared with the last header first: digits are equal, unless a shape names one."""
    shapes = header_dfa.compile_shapes(["99:99 - ", "99:99", "a2 9", "x_y", "<~>", "0"])
    each = [line.encode() for line in lines]
    together = _scan(b"\n".join(each) + (b"\n" if ended else b""), shapes)
    alone = [_scan(line, shapes) for line in each]
    assert together.formats.tolist() == [format for one in alone for format in one.formats.tolist()]
    assert together.templates.tolist() == [template for one in alone for template in one.templates.tolist()]


def _scan(data: bytes, shapes: header_dfa.HeaderTable) -> RecordScan:
    return scan_records(data, len(data), FileMode.LOG, shapes, wrappers=KNOWN.formats.wrapper_table, compiled=False)


def test_records_that_differ_only_in_numbers_share_a_template() -> None:
    lines = [
        b"2016-01-19 13:13:09,418 - WARN  [SyncThread:1:FileTxnLog@334] - took 7ms of session 0x15a1",
        b"2017-02-20 14:14:10,519 - WARN  [SyncThread:3:FileTxnLog@334] - took 1234ms of session 0xbeef1",
        b"2017-02-20 14:14:10,519 - WARN  [SyncThread:3:FileTxnLog@334] - gave 1234ms of session 0xbeef1",
    ]
    first, second, third = _templates(lines)
    assert first == second != third


def test_units_after_numbers_do_not_change_the_template() -> None:
    lines = [
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_3 stored (estimated size 93.0 B, free 1.2 GiB)",
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_47 stored (estimated size 5.2 KB, free 434.4 MiB)",
        b"2016-01-19 13:13:09,418 INFO a.B - Block broadcast_47 kept (estimated size 5.2 KB, free 434.4 MiB)",
    ]
    first, second, third = _templates(lines)
    assert first == second != third
    ending = [line.replace(b")", b"") for line in lines]
    assert len(set(_templates(ending))) == 2


def test_only_the_start_of_a_long_line_determines_its_template() -> None:
    """The bytes read beyond the end of a range depend on the range."""
    beginning = b"2016-01-19 13:13:09,418 INFO a.B - word" + b" word" * 1000
    one, other, short = _templates([beginning, beginning + b" and more", beginning[:200]])
    assert one == other != short


def _templates(lines: list[bytes]) -> list[int]:
    templates: list[int] = _scan(b"\n".join(lines), KNOWN.formats.header_table(FileMode.LOG)).templates.tolist()
    return templates
