"""The page in a real browser: what is claimed leads to its line, and nobody is asked for anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from holdfast.explain.report.html import page
from tests.explain.report.test_html import ATTACK
from tests.explain.situations import JOB_OLD, NO_LOGS, RESURRECTION, at, quiet, stall
from tests.explain.thousands import BEGIN_MS, thousands
from tests.harness.chromium import Opened, chromium, opened
from tests.harness.explain_in_process import asked

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def report(browser: BrowserContext, tmp_path: Path) -> Iterator[Opened]:
    (tmp_path / "report.txt").write_text(RESURRECTION)
    one = opened(browser, tmp_path, page(asked(tmp_path / "report.txt")))
    yield one
    assert one.errors == []
    assert [address for address in one.asked if not address.startswith("file:")] == []
    one.page.close()


def test_it_says_what_happened_with_the_root_first(report: Opened) -> None:
    cards = report.page.locator(".card")
    expect(cards).to_have_count(4)
    expect(cards.nth(0)).to_contain_text("the root")
    expect(report.page.locator(".badge")).to_have_count(1)
    expect(report.page.locator("#summary")).to_contain_text("cut off from its leader")
    expect(report.page.locator(".name")).to_have_count(4)
    assert report.lanes()["marks"] > 0


def test_choosing_a_diagnosis_zooms_to_it_and_draws_its_evidence_and_its_chain(report: Opened) -> None:
    whole = report.lanes()
    card = report.page.locator(".card", has_text=f"job {JOB_OLD} was started again").first
    card.locator(".choose").click()
    seen = report.lanes()
    assert seen["end"] - seen["begin"] < whole["end"] - whole["begin"]
    assert seen["arrows"] == card.locator(".chain li").count() - 1 > 0
    assert seen["highlighted"] >= card.locator(".evidence li").count()
    report.page.locator("#unchoose").click()
    assert report.lanes()["highlighted"] == 0


def test_evidence_and_each_step_of_a_chain_lead_to_their_lines(report: Opened) -> None:
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


def test_wheel_drag_and_double_click_zoom_at_the_pointer_move_and_show_all(report: Opened) -> None:
    whole = report.lanes()
    middle = (whole["begin"] + whole["end"]) / 2
    report.page.locator("#timeline").scroll_into_view_if_needed()
    x, y = report.spot(middle, 2)
    report.page.mouse.move(x, y)
    report.page.mouse.wheel(0, -300)
    zoomed = report.lanes()
    assert zoomed["end"] - zoomed["begin"] < whole["end"] - whole["begin"]
    assert abs((zoomed["begin"] + zoomed["end"]) / 2 - middle) < 0.01 * (zoomed["end"] - zoomed["begin"]), "it stays below"
    report.page.mouse.down()
    report.page.mouse.move(x - 100, y, steps=4)
    report.page.mouse.up()
    moved = report.lanes()
    assert moved["begin"] > zoomed["begin"]
    assert moved["end"] - moved["begin"] == pytest.approx(zoomed["end"] - zoomed["begin"])
    report.page.mouse.dblclick(x, y)
    assert report.lanes()["begin"] == whole["begin"]


def test_keys_do_what_pointers_do(report: Opened) -> None:
    whole = report.lanes()
    report.page.locator("#canvas").focus()
    for key, is_less in (("+", True), ("-", False), ("ArrowRight", False)):
        report.page.keyboard.press(key)
        seen = report.lanes()
        assert (seen["end"] - seen["begin"] < whole["end"] - whole["begin"]) is is_less
    report.page.keyboard.press("0")
    report.page.keyboard.press("ArrowDown")
    expect(report.page.locator("#tooltip")).to_contain_text("checkpoint 812")
    report.page.keyboard.press("Enter")
    expect(report.page.locator("#details pre")).to_have_text("10:04:11 JM 2 completes checkpoint 812.")
    report.page.keyboard.press("Escape")
    expect(report.page.locator("#details")).to_be_hidden()


def test_a_mark_tells_what_it_is_and_a_click_shows_its_line(report: Opened) -> None:
    report.page.locator("#timeline").scroll_into_view_if_needed()
    x, y = report.spot(1772618651000, 1)  # 10:04:11, jobmanager 2
    report.page.mouse.move(x, y)
    expect(report.page.locator("#tooltip")).to_contain_text("10:04:11.000")
    report.page.mouse.click(x, y)
    expect(report.page.locator("#details pre")).to_have_text("10:04:11 JM 2 completes checkpoint 812.")


def test_lanes_fold_and_kinds_are_hidden(report: Opened) -> None:
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
    assert report.lanes()["marks"] == 0
    report.page.locator("#kinds input").first.check()
    assert report.lanes()["marks"] > 0


def test_a_bar_that_began_before_what_is_seen_is_seen(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall(1, at("13:00:00"), 30_000) + stall(1, at("13:20:00"), 2_000))
    one = opened(browser, tmp_path, page(asked(tmp_path / "zk1.log")))
    one.page.locator("#timeline").scroll_into_view_if_needed()
    one.page.mouse.move(*one.spot(1772629215000, 0))  # 13:00:15
    for _ in range(15):
        one.page.mouse.wheel(0, -200)
    assert one.lanes()["begin"] > 1772629200000
    assert one.lanes()["marks"] == 1
    one.page.mouse.move(*one.spot(1772629215500, 0))
    expect(one.page.locator("#tooltip")).to_contain_text("13:00:00.000")
    assert one.errors == []
    one.page.close()


def test_nothing_is_wider_than_a_telephone_and_the_dark_is_dark(report: Opened) -> None:
    report.page.set_viewport_size({"width": 390, "height": 844})
    report.page.emulate_media(color_scheme="dark")
    report.page.locator(".evidence .claim").first.click()
    assert report.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert report.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)"
    assert report.lanes()["marks"] > 0


def test_a_line_that_would_be_a_script_is_a_text(browser: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "a<img src=y onerror=alert(1)>.log"
    file.write_text(quiet(1, at("13:00:00")) + stall(1, at("13:00:00"), 4000).strip() + ATTACK + "\n")
    one = opened(browser, tmp_path, page(asked(file)))
    one.page.locator(".evidence .claim").first.click()
    expect(one.page.locator("#details pre")).to_contain_text(ATTACK)
    assert one.page.locator("img").count() == 0
    assert one.page.title() == "What happened"
    assert one.errors == []
    assert len(one.asked) == 1
    one.page.close()


def test_even_a_script_that_had_come_in_could_ask_nobody(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "zk1.log").write_text(stall(1, at("13:00:00"), 4000))
    one = opened(browser, tmp_path, page(asked(tmp_path / "zk1.log")))
    ask = """() => new Promise(done => {
        document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        setTimeout(() => done('nothing forbade it'), 10000);
    """
    assert one.page.evaluate(ask + "fetch('http://127.0.0.1:9/').catch(() => 0); })") == "connect-src"
    assert one.page.evaluate(ask + "new Image().src = 'http://127.0.0.1:9/'; })") == "img-src"
    one.page.close()


def test_a_page_without_anything_to_draw_says_why(browser: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(NO_LOGS)
    one = opened(browser, tmp_path, page(asked(tmp_path / "x.txt")))
    expect(one.page.locator("#summary")).to_contain_text("no log lines")
    expect(one.page.locator("#timeline")).to_be_hidden()
    assert one.errors == []
    one.page.close()


def test_a_hundred_thousand_happenings_are_drawn_as_what_can_be_seen_of_them(browser: BrowserContext, tmp_path: Path) -> None:
    one = opened(browser, tmp_path, page(thousands(100)))
    whole = one.lanes()
    assert 0 < whole["marks"] < 20_000, "what falls on one place is one column"
    one.page.locator("#timeline").scroll_into_view_if_needed()
    one.page.mouse.move(*one.spot(BEGIN_MS + 43_200_000, 3))
    for _ in range(30):  # each makes it a third shorter
        one.page.mouse.wheel(0, -200)
    zoomed = one.lanes()
    assert zoomed["end"] - zoomed["begin"] < 60_000
    assert zoomed["marks"] < 1000
    one.page.locator("#reset").click()
    assert one.lanes()["marks"] == whole["marks"]
    assert one.errors == []
    one.page.close()
