"""A real browser, and what it did: errors that it told of, and whom it asked for anything."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@dataclass
class Opened:
    page: Page
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Every address that was asked for."""

    def lanes(self) -> dict[str, float]:
        """What is drawn, once nothing is left to be drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found: dict[str, str] = self.page.evaluate("() => ({...document.getElementById('canvas').dataset})")
        return {name: float(value) for name, value in found.items()}

    def spot(self, ms: float, lane: int) -> tuple[float, float]:
        """Where in the window something of a lane is that began then."""
        seen = self.lanes()
        canvas: Any = self.page.locator("#canvas").bounding_box()
        name: Any = self.page.locator(".name").nth(lane).bounding_box()
        x = canvas["x"] + (ms - seen["begin"]) / (seen["end"] - seen["begin"]) * canvas["width"]
        return x, name["y"] + 0.62 * name["height"]


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    program = shutil.which("chromium")
    assert program is not None, "the tests of the page need Chromium: install it (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, args=_OPTIONS, viewport={"width": 1280, "height": 900}
        )
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: BrowserContext, directory: Path, text: str) -> Opened:
    file = directory / "page.html"
    file.write_text(text, "utf-8")
    one = Opened(browser.new_page())
    one.page.on("console", lambda said: one.errors.append(said.text) if said.type in ("error", "warning") else None)
    one.page.on("pageerror", lambda error: one.errors.append(str(error)))
    one.page.on("request", lambda request: one.asked.append(request.url))
    one.page.goto(file.as_uri())
    return one
