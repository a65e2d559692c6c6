"""Pictures of every page of the dashboard, on the simulated facility of `ioweather demo`, in a real Chromium.

    python docs/screenshots.py [DIRECTORY]

At 360, 1024 and 1600 pixels, light and dark, into docs/reference/screenshots, which is not kept in the repository.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from ioweather.web.app import create_app
from ioweather.web.server import bind, running
from ioweather.web.shell import NAVIGATION
from ioweather.workflows.site.demo import make_demo

SCREENSHOTS = Path(__file__).parent / "reference" / "screenshots"
SIZES = ((360, 800), (1024, 900), (1600, 1000))
SCHEMES = ("light", "dark")
MORE_VIEWS = ("/exhibits/kun19.fig5", "/exhibits/pat19.fig5", "/responses?size=2GiB&op=write")
_REACHED = """[...document.querySelectorAll('[data-fragment]')].filter(
  part => part.getBoundingClientRect().top < innerHeight).every(part => part.dataset.filled)"""


def views(page: Page, address: str) -> list[str]:
    """All pages of the navigation, an exhibit of each kind, and the newest job."""
    page.goto(f"{address}/job")
    page.locator('a[href^="/jobs/"]').first.wait_for()
    job = page.locator('a[href^="/jobs/"]').first.get_attribute("href") or "/job"
    return [path for path, _ in NAVIGATION] + [*MORE_VIEWS, job]


def picture_of(page: Page, address: str, view: str, file: Path) -> None:
    page.goto(address + view)
    # Not wait_for_function: it evaluates text in the page, which the page's own policy forbids.
    for _ in range(600):
        if page.evaluate(_REACHED):
            break
        page.wait_for_timeout(100)
    page.screenshot(path=file)


def take(browser: Browser, address: str, folder: Path) -> int:
    shown = views(browser.new_page(), address)
    for width, height in SIZES:
        for scheme in SCHEMES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            for view in shown:
                name = view.strip("/").partition("?")[0].replace("/", "-") or "now"
                picture_of(page, address, view, folder / f"{name}-{width}-{scheme}.png")
            context.close()
    return len(shown) * len(SIZES) * len(SCHEMES)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SCREENSHOTS
    folder.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium here. On Debian or Ubuntu: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="ioweather-screens-") as made, sync_playwright() as driver:
        lake = make_demo(Path(made) / "lake").lake
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        with running(create_app(lake), bind("127.0.0.1", 0)) as where:
            count = take(browser, where.rstrip("/"), folder)
        browser.close()
    print(f"{count} pictures in {folder}")


if __name__ == "__main__":
    main()
