"""Every page in a real browser: no complaint in its console, no request elsewhere, nothing wider than the screen, and
nothing serious that axe finds for people who use a keyboard or a screen reader.

`make screenshots` keeps the pages as pictures, to be looked at.
"""

from __future__ import annotations

import re
import shutil

import pytest

from ioweather.core.units import MINUTE_NS, format_time_ns
from ioweather.topics.source import ask
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.shell import NAVIGATION

SIZES = [(360, 800), (1024, 900), (1600, 1000)]
SERIOUS = ("serious", "critical")
REACHED = """[...document.querySelectorAll('[data-fragment]')].filter(
  part => part.checkVisibility() && part.getBoundingClientRect().top < innerHeight
).every(part => part.dataset.filled)"""

# Tables whose columns are hidden until somebody scrolls sideways.
CUT = """[...document.querySelectorAll('.scroll')].filter(region => region.scrollWidth > region.clientWidth + 1).map(
  region => region.getAttribute('aria-label') + ' ' + region.scrollWidth)"""

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(lake):
    with running(create_app(lake.root), bind("127.0.0.1", 0)) as where:
        yield where.rstrip("/")


def wait_until_reached(page):
    # Not wait_for_function: it evaluates text in the page, which the page's own policy forbids.
    for _ in range(600):
        if page.evaluate(REACHED):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"parts of {page.url} never came")


@pytest.fixture(scope="module")
def axe():
    found = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing")
    return found.Axe()


def named_pages(client):
    """A page of each kind of thing that has a name."""
    run = client.get("/api/v1/jobs").json()["jobs"][0]
    yield from (f"users/{run['user']}", f"projects/{run['project']}")
    yield f"programs/{run['program']}"
    yield "events"
    yield from (f"components/{name}" for name in ("scratch-OST0000", "scratch-MDT0000", "oss001"))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_page(browser, axe, address, client, job_id, width, height):
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    page = context.new_page()
    wrong: list[str] = []

    def hear(message) -> None:
        is_absent = message.location.get("url", "").endswith("/nothing")  # asked for to see the page that says so
        if message.type in ("error", "warning") and not is_absent:
            wrong.append(f"{message.text} {message.location}")

    page.on("console", hear)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
    views = [path for path, _ in NAVIGATION]
    views += [f"/{path}" for path in named_pages(client)]
    views += [
        "/filesystems/scratch",
        "/search?q=a",
        "/search?q=zzz",
        "/nothing",
        "/claims",
    ]
    views += ["/exhibits/pat19.fig5", f"/jobs/{job_id}", "/sql?q=SELECT+1+AS+one"]
    for view in views:
        page.goto(address + view)
        wait_until_reached(page)
        assert page.title().endswith("ioweather")
        assert page.locator("h1").count() == 1, view
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (view, scheme)
            assert width >= 700 or not page.evaluate(CUT), (view, page.evaluate(CUT))
            found = axe.run(page).response["violations"]
            wrong += [f"{view}: {scheme}: {v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in SERIOUS]
        page.emulate_media(color_scheme="light")
    assert not wrong
    context.close()


def test_a_figure_answers_the_pointer(browser, address):
    page = browser.new_page(viewport={"width": 1024, "height": 1400})
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.goto(f"{address}/exhibits/car11.fig6")
    figure = page.locator("figure[data-live]").first
    figure.hover()
    chart = figure.locator(".live canvas")
    chart.wait_for()
    assert not figure.locator("> .scroll svg").first.is_visible()
    box = chart.bounding_box()
    for step in range(200):
        page.mouse.move(box["x"] + box["width"] * (step % 20) / 20, box["y"] + box["height"] * (step // 20) / 10)
        if page.locator("#vg-tooltip-element.visible").count():
            break
    assert page.locator("#vg-tooltip-element.visible td.value").first.inner_text()
    assert not wrong
    page.close()


@pytest.mark.parametrize("width", [390, 1280, 1440, 1920])
def test_no_chart_is_wider_than_its_box_under_the_pointer(browser, address, job_id, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    checked = 0
    for path in ("/", "/filesystems/scratch", f"/jobs/{job_id}"):
        page.goto(address + path)
        wait_until_reached(page)
        for number in range(page.locator("figure[data-live]").count()):
            figure = page.locator("figure[data-live]").nth(number)
            figure.hover()
            figure.locator(".live canvas").wait_for()
            box, chart = figure.bounding_box(), figure.locator(".live canvas").bounding_box()
            assert chart["width"] <= box["width"] + 0.5, (path, number)
            checked += 1
    assert checked > 3
    page.close()


def test_a_brush_over_a_time_line_becomes_the_range(browser, address):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/")
    wait_until_reached(page)
    figure = page.locator("[data-brush] figure").first
    figure.hover()
    chart = figure.locator(".live canvas")
    chart.wait_for()
    box = chart.bounding_box()
    middle = box["y"] + box["height"] * 0.6
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=8)
    page.mouse.up()
    page.wait_for_url("**/?from=*&to=*")
    shared = page.url
    # It is drawn from what is here, then by the server; the page is the same, its links and forms are of the new range.
    page.locator("input[name=from][value*='T']").wait_for(state="attached")
    assert page.evaluate("performance.getEntriesByName('zoom').length") == 1
    assert "from=" in page.locator("nav a", has_text="Storage").get_attribute("href")
    with page.expect_event("load"):
        page.go_back()
    assert page.url == f"{address}/"
    assert page.locator("input[name=from]").input_value() == ""
    page.close()
    again = browser.new_page(viewport={"width": 1440, "height": 900})
    again.goto(shared)
    assert again.locator("input[name=from]").input_value()[:10] == shared.partition("from=")[2][:10]
    again.close()


def test_a_page_keeps_its_breadcrumb_while_another_range_loads(browser, address):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/filesystems/scratch")
    wait_until_reached(page)
    page.route("**/fragments/storage?*", lambda route: None)  # what the zoom asks for never arrives
    moved = f"{address}/filesystems/scratch?from=2026-03-02T06:00&to=2026-03-02T09:00"
    page.evaluate("async (to) => (await import('/static/app.js')).visit(new URL(to))", moved)
    assert page.locator(".crumbs").inner_text().split() == ["Storage", "scratch"]
    page.close()


def test_time_lines_share_their_cursor(browser, axe, address):
    page = browser.new_page(viewport={"width": 1440, "height": 1400})
    page.goto(f"{address}/filesystems/scratch")
    wait_until_reached(page)
    page.locator("figure").first.hover()
    page.locator("figure .live canvas").nth(1).wait_for()
    box = page.locator("figure .live canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    seen = page.locator(".cursor:visible")
    seen.nth(1).wait_for()
    moments = {mark.get_attribute("data-moment") for mark in seen.all()}
    assert len(moments) == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", moments.pop())
    assert not [v for v in axe.run(page).response["violations"] if v["impact"] in SERIOUS]
    page.mouse.move(2, 2)
    assert page.locator(".cursor:visible").count() == 0
    page.close()


def test_from_a_slow_hour_to_what_slowed_a_run_in_four_clicks(browser, lake, address):
    """And the address of the last page shows the same to anybody."""
    (job, start_ns, end_ns) = slowed_by_somebody(lake)
    around = "&".join(
        f"{name}={format_time_ns(t)[:16].replace(' ', 'T')}Z" for name, t in (("from", start_ns), ("to", end_ns))
    )
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/?{around}")
    wait_until_reached(page)
    page.locator(f"[data-fragment*=slowest] a[href*='/jobs/{job}']").first.click()  # 1
    named = page.locator("h2 a[href*='/components/'], h2 a[href*='/filesystems/']").first
    named.wait_for()
    culprit = named.inner_text()
    named.click()  # 2
    page.wait_for_url(f"**/{culprit}*")
    wait_until_reached(page)
    title = page.locator("h1").first.inner_text()
    again = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    again.goto(page.url)
    wait_until_reached(again)
    assert again.locator("h1").first.inner_text() == title
    again.close()
    page.close()


def slowed_by_somebody(lake):
    """A run of the slowest for which `why` names a job or a component, with an hour about it."""
    for run in ask("runs", lake, {"order": "slowest", "most": 12}).result.runs:
        found = ask("why", lake, {"job": str(run.job_id)}).result
        if found.culprits or found.unhealthy:
            return run.job_id, run.start_ns - 30 * MINUTE_NS, run.end_ns + 30 * MINUTE_NS
    pytest.skip("no slow run of this lake has a culprit")


def test_from_the_overview_to_a_slow_run_its_user_and_target(browser, address):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/")
    wait_until_reached(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
    page.locator("[data-fragment*=slowest] tbody th a").first.click()
    page.locator("h1").wait_for()
    page.locator(".facts-line a[href*='/users/']").click()
    page.locator("[data-fragment*=runs] tbody th a").first.wait_for()
    page.goto(f"{address}/")
    page.locator(".cards h2 a").first.click()
    page.locator("a[href*='/components/']").first.click()
    page.locator("h1").wait_for()
    assert "/components/" in page.url
    page.close()


def test_a_table_is_sorted_filtered_and_taken_along(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/job")
    table = page.locator("[data-fragment*=runs] table")
    table.wait_for()
    table.locator("thead button", has_text="I/O time").click()
    shown = [float(cell.get_attribute("data-value") or "nan") for cell in table.locator("tbody td:nth-child(9)").all()]
    known = [value for value in shown if value == value]
    assert known == sorted(known)
    page.locator(".tools input").first.fill("no such run")
    assert table.locator("tbody tr:visible").count() == 0
    page.locator(".tools input").first.fill("")
    with page.expect_download() as taken:
        page.locator(".tools a").first.click()
    assert taken.value.path().read_text().startswith('"job","user"')
    page.close()


def test_the_forms_work_by_keyboard(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/sql")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#query").fill("SELECT 42 AS answer")
    page.locator("#query").press("Control+Enter")
    page.locator("#result table").wait_for()
    assert "42" in page.locator("#result").inner_text()
    assert "q=SELECT+42" in page.url
    page.goto(f"{address}/job")
    page.locator("#log").set_input_files({"name": "x.darshan", "mimeType": "", "buffer": b"garbage"})
    page.locator("form[data-upload] button").press("Enter")
    page.locator("#uploaded .problem strong").wait_for()
    page.locator("#find").fill("no such thing")
    page.locator("#find").press("Enter")
    page.wait_for_url("**/jobs?q=no+such+thing")
    page.close()
