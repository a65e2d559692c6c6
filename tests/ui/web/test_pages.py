"""The pages: headers, no address outside, landmarks, and parts that say what is missing."""

from __future__ import annotations

import re

import pytest

from ioweather.core.papers import exhibits
from ioweather.ui.web.app import STATIC
from ioweather.ui.web.queries import TOPICS, exhibits_of
from ioweather.ui.web.shell import NAVIGATION

PAGES = [path for path, _ in NAVIGATION]
OTHERS = [
    "/exhibits/car11.fig7", "/jobs/1", "/projects/x", "/users/x", "/programs/%3Cscript%3E", "/filesystems/scratch",
    "/components/%3Cscript%3E", "/search?q=%3Cscript%3E", "/job?q=%3Cscript%3E",
    "/climate?from=%22%3E%3Cscript%3E", "/claims",
]  # fmt: skip


def test_every_exhibit_has_one_page():
    placed = [exhibit_id for topic in TOPICS for exhibit_id in exhibits_of(topic)]
    assert sorted(placed) == sorted(entry.id for entry in exhibits())


@pytest.mark.parametrize("path", PAGES + OTHERS)
def test_a_page_is_strict_and_whole(client, path):
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    text = response.text
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert "style=" not in text
    assert not re.search(r"\son\w+=", text)
    assert "<script>" not in text.replace("&lt;script&gt;", "")
    for landmark in (
        '<html lang="en">',
        "<header>",
        '<nav aria-label="Pages">',
        '<main id="main"',
        "<title>",
        'href="#main"',
    ):
        assert landmark in text
    if path in PAGES:
        assert text.count('aria-current="page"') == 1
    for name in re.findall(r'<(?:input|textarea|select) id="([^"]+)"', text):
        assert f'for="{name}"' in text


def test_style_and_script_load_nothing_from_elsewhere(client):
    names = [f"/static/{file.name}" for file in STATIC.iterdir()]
    for path in ["/figures.css", *names]:
        response = client.get(path)
        assert response.status_code == 200
        text = response.text.replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text.replace("https:", "http:") or path.endswith(".js")
        assert "//" not in re.findall(r"(?:url\(|import |fetch\()[^)\n]*", text)
        assert "eval(" not in text


def test_an_exhibit_is_drawn_with_its_downloads(client):
    text = client.get("/fragments/exhibits/car11.fig7?from=2026-03-02").text
    assert "<svg" in text
    assert 'aria-label="' in text
    for form in ("svg", "png", "csv", "json"):
        link = re.search(rf'href="(/api/v1/exhibits/car11.fig7\?[^"]*format={form}[^"]*)"', text)
        assert link, form
        assert "from=2026-03-02" in link[1]
        assert client.get(link[1].replace("&amp;", "&")).status_code == 200
    assert "style=" not in text
    assert not re.search(r"<script(?! type=.application/json.)", text)  # data for figures, which no browser runs
    assert "<h1>" in client.get("/fragments/exhibits/car11.fig7?heading=1").text


def test_a_found_job_links_to_its_page_and_stays_in_the_facility(client, job_id):
    assert f'href="/jobs/{job_id}"' in client.get(f"/fragments/runs?q={job_id}").text
    text = client.get(f"/fragments/jobs/{job_id}").text
    assert text.count("<h1>") == 1
    assert "What the run did" in text


def test_parts_say_what_is_missing(client):
    for path, status in (
        ("/fragments/exhibits/car11.fig99", 400),
        ("/fragments/jobs/..", 404),
        ("/fragments/jobs/abc", 400),
        ("/fragments/projects/none%3Cb%3E", 200),
    ):
        response = client.get(path)
        assert response.status_code == status, path
        assert 'class="problem' in response.text or status == 404
        assert "<b>" not in response.text


def test_a_lake_without_data_is_no_error(without_data):
    for path in (*PAGES, "/fragments/runs", "/fragments/lake"):
        response = without_data.get(path)
        assert response.status_code == 200
        assert "No data yet" in response.text or not path.startswith("/fragments")
    assert without_data.get("/exhibits/nothing.fig1").status_code == 400


def test_sql_is_shown_to_the_last_digit_and_upload_of_garbage_is_explained(client):
    text = client.post("/fragments/sql", json={"query": "SELECT 1772409600000000001 AS t, '<b>' AS x"}).text
    assert "1,772,409,600,000,000,001" in text
    assert "&lt;b&gt;" in text
    response = client.post("/fragments/sql", json={"query": "DROP TABLE jobs"})
    assert response.status_code == 400
    assert 'class="problem' in response.text
    headers = {"content-type": "application/octet-stream"}
    response = client.post("/fragments/upload", content=b"garbage", headers=headers)
    assert response.status_code == 422
    assert 'class="problem' in response.text


@pytest.mark.parametrize(
    ("words", "page"),
    [("4711", "/jobs/4711"), ("scratch", "/filesystems/scratch"), ("car11.fig7", "/exhibits/car11.fig7"),
     ("no such", "/jobs?q=no+such")],
)  # fmt: skip
def test_the_search_leads_to_what_is_named_and_else_to_jobs(client, words, page):
    assert client.get("/search", params={"q": words}, follow_redirects=False).headers["location"] == page
