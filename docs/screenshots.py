"""Pictures of every kind of page of the dashboard, on a simulated facility, in a real Chromium.

    python docs/screenshots.py [DIRECTORY] [--lake LAKE]

Pages at 1440, 1024 and 390 pixels, light and dark, into docs/reference/screenshots, which is not kept in the
repository. Without LAKE the facility of `ioweather demo` is made for it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from ioweather.ui.local_setup import make_demo
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.shell import NAVIGATION

SCREENSHOTS = Path(__file__).parent / "reference" / "screenshots"
SIZES = ((1440, 900), (1024, 900), (390, 844))
SCHEMES = ("light", "dark")
TALLEST_PX = 4000  # a page of a paper's figures is ten times as tall
# Pages that one click of the list on the left leads to: of each kind the first that it links to.
LEADS = (
    ("/", "/filesystems/"),
    ("/filesystems/scratch", "/components/"),
    ("/health", "/components/oss"),
    ("/job", "/jobs/"),
    ("/job", "/users/"),
    ("/job", "/projects/"),
    ("/job", "/programs/"),
)
MORE_VIEWS = (
    "/claims",
    "/exhibits/car11.table2",
    "/exhibits/kun19.fig5",
    "/exhibits/pat19.fig5",
    "/responses?size=2GiB&op=write",
    "/search?q=ost",
    "/search?q=nobody",
    "/sql?q=SELECT+*+FROM+jobs+LIMIT+5",
    "/nothing",
)
_REACHED = f"""[...document.querySelectorAll('[data-fragment]')].filter(
  part => part.getBoundingClientRect().top + scrollY < {TALLEST_PX}).every(part => part.dataset.filled)"""


def come(page: Page, address: str, view: str) -> None:
    """With the parts that a picture shows: they are fetched as somebody comes to them."""
    page.goto(address + view)
    # Not wait_for_function: it evaluates text in the page, which the page's own policy forbids.
    for step in range(600):
        page.evaluate(f"scrollTo(0, {step % 6} * innerHeight)")
        page.wait_for_timeout(100)
        if step >= 6 and page.evaluate(_REACHED):
            break
    page.evaluate("scrollTo(0, 0)")


def views(page: Page, address: str) -> Iterator[str]:
    """All pages of the navigation, one of each kind of thing that has a name, and those that only a link leads to."""
    yield from (path for path, _ in NAVIGATION)
    yield from MORE_VIEWS
    for start, kind in LEADS:
        come(page, address, start)
        named = page.locator(f'main a[href^="{kind}"]').first
        if named.count():
            yield named.get_attribute("href") or start
        if kind == "/jobs/":
            come(page, address, named.get_attribute("href") or start)
            yield from filter(None, [page.locator('main a[href*="/file?"]').first.get_attribute("href")])


def name_of(view: str) -> str:
    path, _, query = view.partition("?")
    kept = "-".join(re.findall(r"\b(?:lake|q)=(\w+)", query))
    return "-".join(filter(None, [path.strip("/").replace("/", "-") or "overview", kept]))


def take(browser: Browser, address: str, folder: Path) -> int:
    shown = list(dict.fromkeys(views(browser.new_page(viewport={"width": 1440, "height": 900}), address)))
    for width, height in SIZES:
        context = browser.new_context(viewport={"width": width, "height": height})
        page = context.new_page()
        for view in shown:
            come(page, address, view)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                tall = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST_PX)
                whole = {"x": 0, "y": 0, "width": width, "height": tall}
                page.screenshot(path=folder / f"{name_of(view)}-{width}-{scheme}.png", full_page=True, clip=whole)
        context.close()
    return len(shown) * len(SIZES) * len(SCHEMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=SCREENSHOTS)
    parser.add_argument("--lake", type=Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium here. On Debian or Ubuntu: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="ioweather-screens-") as made, sync_playwright() as driver:
        lake = options.lake or make_demo(Path(made) / "lake")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        with running(create_app(lake), bind("127.0.0.1", 0)) as where:
            count = take(browser, where.rstrip("/"), options.directory)
        browser.close()
    print(f"{count} pictures in {options.directory}")


if __name__ == "__main__":
    main()
