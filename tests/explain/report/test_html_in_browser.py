"""HTML page in a real browser: statements link to their lines, and the page makes no requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from holdfast.explain.report.html import render_page
from tests.explain.many_occurrences import BEGIN_MS, answer_with_many_occurrences
from tests.explain.report.test_html import ATTACK
from tests.harness.chromium import OpenPage, chromium, open_page
from tests.harness.explain_in_process import explain_logs
from tests.harness.log_situations import JOB_OLD, NO_LOGS, RESURRECTION, at, healthy_log, stall_line, zookeeper_line

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def report(browser: BrowserContext, tmp_path: Path) -> Iterator[OpenPage]:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    one = open_page(browser, tmp_path, render_page(explain_logs(tmp_path / "report.txt")))
    yield one
    assert one.errors == []
    assert [address for address in one.requests if not address.startswith("file:")] == []
    one.page.close()


def test_page_shows_the_root_diagnosis_first(report: OpenPage) -> None:
    cards = report.page.locator(".card")
    expect(cards).to_have_count(4)
    expect(cards.nth(0)).to_contain_text("root cause")
    expect(report.page.locator(".badge")).to_have_count(1)
    expect(report.page.locator("#summary")).to_contain_text("cut off from its leader")
    expect(report.page.locator(".name")).to_have_count(4)
    assert report.canvas_state()["marks"] > 0


def test_choosing_a_diagnosis_zooms_to_it_and_draws_evidence_and_chain(report: OpenPage) -> None:
    whole = report.canvas_state()
    card = report.page.locator(".card", has_text=f"job {JOB_OLD} was started again").first
    card.locator(".choose").click()
    state = report.canvas_state()
    assert state["end"] - state["begin"] < whole["end"] - whole["begin"]
    assert state["arrows"] == card.locator(".chain li").count() - 1 > 0
    assert state["highlighted"] >= card.locator(".evidence li").count()
    report.page.locator("#unchoose").click()
    assert report.canvas_state()["highlighted"] == 0


def test_evidence_and_chain_steps_show_their_lines(report: OpenPage) -> None:
    details = report.page.locator("#details")
    expect(details).to_be_hidden()
    card = report.page.locator("#diagnosis-2")
    card.locator(".evidence .claim").first.click()
    expect(details.locator("pre")).to_have_text(card.locator(".evidence code").first.inner_text())
    expect(details.locator(".place")).to_contain_text("report.txt:27 at byte")
    card.locator(".chain .claim").first.click()
    expect(details.locator("pre")).to_have_text("10:04:57 ZK 1 (follower) loses connectivity to the leader, by a timeout")
    details.get_by_label("Close the lines").click()
    expect(details).to_be_hidden()


def test_wheel_zooms_drag_moves_and_double_click_resets(report: OpenPage) -> None:
    whole = report.canvas_state()
    middle = (whole["begin"] + whole["end"]) / 2
    report.page.locator("#timeline").scroll_into_view_if_needed()
    x, y = report.position(middle, 2)
    report.page.mouse.move(x, y)
    report.page.mouse.wheel(0, -300)
    zoomed = report.canvas_state()
    assert zoomed["end"] - zoomed["begin"] < whole["end"] - whole["begin"]
    assert abs((zoomed["begin"] + zoomed["end"]) / 2 - middle) < 0.01 * (zoomed["end"] - zoomed["begin"]), (
        "the time under the pointer stays in place"
    )
    report.page.mouse.down()
    report.page.mouse.move(x - 100, y, steps=4)
    report.page.mouse.up()
    moved = report.canvas_state()
    assert moved["begin"] > zoomed["begin"]
    assert moved["end"] - moved["begin"] == pytest.approx(zoomed["end"] - zoomed["begin"])
    report.page.mouse.dblclick(x, y)
    assert report.canvas_state()["begin"] == whole["begin"]


def test_keyboard_zooms_moves_and_selects(report: OpenPage) -> None:
    whole = report.canvas_state()
    report.page.locator("#canvas").focus()
    for key, is_less in (("+", True), ("-", False), ("ArrowRight", False)):
        report.page.keyboard.press(key)
        state = report.canvas_state()
        assert (state["end"] - state["begin"] < whole["end"] - whole["begin"]) is is_less
    report.page.keyboard.press("0")
    report.page.keyboard.press("ArrowDown")
    expect(report.page.locator("#tooltip")).to_contain_text("checkpoint 812")
    report.page.keyboard.press("Enter")
    expect(report.page.locator("#details pre")).to_have_text("10:04:11 JM 2 completes checkpoint 812.")
    report.page.keyboard.press("Escape")
    expect(report.page.locator("#details")).to_be_hidden()


def test_mark_has_a_tooltip_and_a_click_shows_its_line(report: OpenPage) -> None:
    report.page.locator("#timeline").scroll_into_view_if_needed()
    x, y = report.position(1772618651000, 1)  # 10:04:11, jobmanager 2
    report.page.mouse.move(x, y)
    expect(report.page.locator("#tooltip")).to_contain_text("10:04:11.000")
    report.page.mouse.click(x, y)
    expect(report.page.locator("#details pre")).to_have_text("10:04:11 JM 2 completes checkpoint 812.")


def test_lanes_fold_and_kinds_can_be_hidden(report: OpenPage) -> None:
    name = report.page.locator(".name").first
    before = name.bounding_box()
    name.click()
    expect(name).to_have_attribute("aria-expanded", "false")
    after = name.bounding_box()
    assert before is not None and after is not None and after["height"] < before["height"]
    name.click()
    expect(name).to_have_attribute("aria-expanded", "true")
    report.page.locator("#filter summary").click()
    report.page.locator("#no-kinds").click()
    assert report.canvas_state()["marks"] == 0
    report.page.locator("#kinds input").first.check()
    assert report.canvas_state()["marks"] > 0


def test_bar_that_began_before_the_visible_range_is_drawn(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall_line(1, at("13:00:00"), 30_000) + stall_line(1, at("13:20:00"), 2_000))
    one = open_page(browser, tmp_path, render_page(explain_logs(tmp_path / "zk1.log")))
    one.page.locator("#timeline").scroll_into_view_if_needed()
    one.page.mouse.move(*one.position(1772629215000, 0))  # 13:00:15
    for _ in range(15):
        one.page.mouse.wheel(0, -200)
    assert one.canvas_state()["begin"] > 1772629200000
    assert one.canvas_state()["marks"] == 1
    one.page.mouse.move(*one.position(1772629215500, 0))
    expect(one.page.locator("#tooltip")).to_contain_text("13:00:00.000")
    assert one.errors == []
    one.page.close()


def test_page_fits_a_phone_and_follows_the_dark_colour_scheme(report: OpenPage) -> None:
    report.page.set_viewport_size({"width": 390, "height": 844})
    report.page.emulate_media(color_scheme="dark")
    report.page.locator(".evidence .claim").first.click()
    assert report.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert report.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)"
    assert report.canvas_state()["marks"] > 0


def test_script_in_a_log_line_is_shown_as_text(browser: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "a<img src=y onerror=alert(1)>.log"
    file.write_text(healthy_log(1, at("13:00:00")) + stall_line(1, at("13:00:00"), 4000).strip() + ATTACK + "\n")
    one = open_page(browser, tmp_path, render_page(explain_logs(file)))
    one.page.locator(".evidence .claim").first.click()
    expect(one.page.locator("#details pre")).to_contain_text(ATTACK)
    assert one.page.locator("img").count() == 0
    assert one.page.title() == "What happened"
    assert one.errors == []
    assert len(one.requests) == 1
    one.page.close()


def test_policy_blocks_requests_of_injected_scripts(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall_line(1, at("13:00:00"), 4000))
    one = open_page(browser, tmp_path, render_page(explain_logs(tmp_path / "zk1.log")))
    ask = """() => new Promise(done => {
        document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        setTimeout(() => done('nothing forbade it'), 10000);
    """
    assert one.page.evaluate(ask + "fetch('http://127.0.0.1:9/').catch(() => 0); })") == "connect-src"
    assert one.page.evaluate(ask + "new Image().src = 'http://127.0.0.1:9/'; })") == "img-src"
    one.page.close()


def test_page_without_occurrences_shows_the_reason(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    one = open_page(browser, tmp_path, render_page(explain_logs(tmp_path / "x.txt")))
    expect(one.page.locator("#summary")).to_contain_text("no log lines")
    expect(one.page.locator("#timeline")).to_be_hidden()
    assert one.errors == []
    one.page.close()


def test_error_lines_are_listed_if_no_signature_fits(browser: BrowserContext, tmp_path: Path) -> None:
    failed = zookeeper_line(at("13:20:00"), 1, "main:A@1", f"it broke {ATTACK}", "ERROR")
    (tmp_path / "zk1.log").write_text(healthy_log(1, at("13:00:00")) + failed * 3)
    one = open_page(browser, tmp_path, render_page(explain_logs(tmp_path / "zk1.log")))
    expect(one.page.locator("#summary")).to_contain_text("No known signature fits. 3 lines report an error (3 ERROR).")
    expect(one.page.locator("#errors li").first).to_contain_text(f"{tmp_path / 'zk1.log'}:21")
    expect(one.page.locator("#errors li").last).to_contain_text("(3 times)")
    expect(one.page.locator("#errors li code").last).to_have_text(failed.strip())
    assert one.errors == []
    one.page.close()


def test_no_error_lines_are_listed_beside_a_diagnosis(report: OpenPage) -> None:
    expect(report.page.locator("#errors")).to_be_empty()


def test_hundred_thousand_occurrences_are_drawn_as_columns(browser: BrowserContext, tmp_path: Path) -> None:
    one = open_page(browser, tmp_path, render_page(answer_with_many_occurrences(100)))
    whole = one.canvas_state()
    assert 0 < whole["marks"] < 20_000, "occurrences in one cell are one column"
    one.page.locator("#timeline").scroll_into_view_if_needed()
    one.page.mouse.move(*one.position(BEGIN_MS + 43_200_000, 3))
    for _ in range(30):  # each step shortens the range by a third
        one.page.mouse.wheel(0, -200)
    zoomed = one.canvas_state()
    assert zoomed["end"] - zoomed["begin"] < 60_000
    assert zoomed["marks"] < 1000
    one.page.locator("#reset").click()
    assert one.canvas_state()["marks"] == whole["marks"]
    assert one.errors == []
    one.page.close()
