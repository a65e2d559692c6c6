"""How soon a time line shows a stretch that was brushed over, in Chromium, on a year of 248 targets at one minute.

    python benchmarks/zoom.py [--days 365] [--targets 248] [--times 12] [--lake DIR]

The time is that from the release of the button to the frame with the new range (the page's own measure `zoom`), then
to the server's finer drawing. The peer is the same range as a new page, which is what a brush led to before. Beside it:
the first paint, and the processor time that the server takes for the parts of pages of the whole year.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from dashboard import Running, build, serving

PARTS = (
    "/fragments/load?from=@0",
    "/fragments/storage?where=scratch&from=@0",
    "/fragments/storage?where=OST0010&from=@0",
)
SETTLED = """[...document.querySelectorAll('[data-fragment]')]
  .filter(part => part.getBoundingClientRect().top < innerHeight)
  .every(part => part.dataset.filled && part.getAttribute('aria-busy') === 'false')"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def until(page: Any, is_true: Callable[[], bool], seconds: float = 120.0) -> float:
    """Milliseconds until it is."""
    started = time.perf_counter()
    while not is_true():
        assert time.perf_counter() - started < seconds, page.url
        page.wait_for_timeout(5)
    return (time.perf_counter() - started) * 1000


def brush(page: Any, start: float, width: float) -> None:
    page.locator("[data-brush] figure").first.hover()
    chart = page.locator("[data-brush] figure .live canvas").first
    chart.wait_for()
    page.wait_for_timeout(300)
    box = chart.bounding_box()
    height = box["y"] + box["height"] * 0.6
    page.mouse.move(box["x"] + box["width"] * start, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (start + width), height, steps=6)
    page.mouse.up()


def one(page: Any, address: str, number: int) -> tuple[float, float, float, float]:
    """First paint, zoom, refined, and the same range as a new page."""
    page.goto(f"{address}/?from=@0")
    until(page, lambda: page.evaluate(SETTLED))
    paint = page.evaluate(PAINT)
    brush(page, 0.2 + 0.05 * (number % 10), 0.2)
    refined = until(page, lambda: page.locator("input[name=from][value*='T']").count() and page.evaluate(SETTLED))
    zoom = page.evaluate("performance.getEntriesByName('zoom')[0].duration")
    again = page.url
    page.goto("about:blank")
    started = time.perf_counter()
    page.goto(again)
    until(page, lambda: page.evaluate(SETTLED))
    return paint, zoom, refined, (time.perf_counter() - started) * 1000


def parts(server: Running) -> None:
    for path in PARTS:
        before = server.cpu_seconds()
        status, body, seconds = server.get(path)
        used = server.cpu_seconds() - before
        print(f"{path}: {status}, {len(body) / 1e6:.2f} MB, {seconds:.2f} s, {used:.2f} s of the processor", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--targets", type=int, default=248)
    parser.add_argument("--times", type=int, default=12)
    parser.add_argument("--lake", type=Path, help="Keep the lake here, or use the one that is here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = options.lake or Path(folder) / "lake"
        if not place.exists():
            build(place, options.days, options.targets, 0)
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        with serving(place, Path(folder) / "spool") as server:
            parts(server)
            load = os.getloadavg()[0]
            found = np.array([one(page, f"http://127.0.0.1:{server.port}", n) for n in range(options.times)])
        browser.close()
    print(f"load {load:.1f} on {os.cpu_count()} cores; {options.times} times; milliseconds, median and 95%")
    for name, column in zip(("first paint", "zoom", "refined by the server", "as a new page"), found.T, strict=True):
        print(f"| {name} | {np.median(column):.0f} | {np.quantile(column, 0.95):.0f} |")
    print(f"zoom / new page: {np.median(found[:, 1]) / np.median(found[:, 3]):.2f}")


if __name__ == "__main__":
    main()
