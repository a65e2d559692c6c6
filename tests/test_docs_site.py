"""The documentation site builds without a warning, and its pages ask nobody for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material is not installed (extra `docs`)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return target


class Loaded(HTMLParser):
    """What a browser would fetch to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data") and value]


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text("utf-8"))
        assert [address for address in loaded.addresses if re.match(r"(?i)(https?:)?//", address)] == [], page.name


def test_styles_load_nothing_from_elsewhere(site):
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(\s*['\"]?(?:https?:)?//", style.read_text("utf-8")) == [], style.name


def test_what_is_no_page_stays_out(site):
    assert list(site.rglob("*.py")) == []
    assert (site / "prometheus" / "rules.yml").exists()
    assert "exhibits.html" in (site / "index.html").read_text("utf-8")


@pytest.mark.real
def test_the_site_works_from_a_disk_and_so_does_its_search(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync"]  # fmt: skip
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "reference/exhibits.html", "tutorial.html"):
            page.goto((site / name).as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("retention", delay=20)
        page.locator(".md-search-result__link").first.wait_for()
        assert "operate.html" in (page.locator(".md-search-result__link").first.get_attribute("href") or "")
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
