"""Real browser for tests, with its console errors and its requests."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
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
class OpenPage:
    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Addresses of all requests."""

    def canvas_state(self) -> dict[str, float]:
        """Return the state of the canvas after all pending frames are drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found: dict[str, str] = self.page.evaluate("() => ({...document.getElementById('canvas').dataset})")
        return {name: float(value) for name, value in found.items()}

    def position(self, ms: float, lane: int) -> tuple[float, float]:
        """Return the window position of an occurrence of a lane that began at `ms`."""
        seen = self.canvas_state()
        canvas: Any = self.page.locator("#canvas").bounding_box()
        name: Any = self.page.locator(".name").nth(lane).bounding_box()
        x = canvas["x"] + (ms - seen["begin"]) / (seen["end"] - seen["begin"]) * canvas["width"]
        return x, name["y"] + 0.62 * name["height"]


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome: on PATH, else downloaded by Playwright, else None."""
    if (program := next(filter(None, map(shutil.which, _PROGRAMS)), None)) is not None:
        return program
    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    return downloaded if Path(downloaded).exists() else None


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    """Run a headless browser with a new profile until the end of the block."""
    program = find_browser()
    assert program is not None, "the browser tests need Chromium or Chrome on PATH: run `tools/provide browser`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, args=_OPTIONS, viewport={"width": 1280, "height": 900}
        )
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: BrowserContext, directory: Path, text: str) -> OpenPage:
    file = directory / "page.html"
    file.write_text(text, "utf-8")
    one = OpenPage(browser.new_page())
    one.page.on("console", lambda message: one.errors.append(message.text) if message.type in ("error", "warning") else None)
    one.page.on("pageerror", lambda error: one.errors.append(str(error)))
    one.page.on("request", lambda request: one.requests.append(request.url))
    one.page.goto(file.as_uri())
    return one


if __name__ == "__main__":
    found = find_browser()
    print(found or "")  # noqa: T201 -- for tools/provide
    sys.exit(0 if found else 1)
