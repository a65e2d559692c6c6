"""The parts that answer a question: forecast, stripe advice, projects, agents, periods."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlparse

import pytest
from fastapi.testclient import TestClient

from ioweather.agent.status import SourceStatus, SpoolStatus, Status, TargetStatus, write_status
from ioweather.core.papers.claim_tests import claims
from ioweather.core.units import now_ns, parse_time_ns, zone_named
from ioweather.ui.web.app import create_app


def test_the_forecast_is_an_answer_below_the_first_heading(client):
    text = client.get("/fragments/forecast").text
    assert "<h1" not in text
    assert "in 60 min" in text or "history" in text


@pytest.mark.parametrize("op", ["read", "write"])
def test_a_transfer_without_samples_of_sizes_says_how_to_measure_them(client, op):
    text = client.get("/fragments/transfer", params={"size": "2GiB", "op": op}).text
    assert 'class="problem absent"' in text
    assert "ioweather probe PATH --sizes paper" in text


def test_a_size_that_is_none_is_explained(client):
    response = client.get("/fragments/transfer", params={"size": "a lot<script>"})
    assert "64GiB" in response.text
    assert "<script>" not in response.text
    assert client.get("/fragments/transfer", params={"size": "1GiB", "op": "erase"}).status_code in (400, 422)


def test_the_question_is_part_of_the_address(client):
    text = client.get("/storage?size=2GiB&op=read").text
    assert "/fragments/transfer?size=2GiB&amp;op=read" in text
    assert '<option value="read" selected>' in text


def test_claims_stand_beside_the_papers_and_lead_to_their_exhibits(client):
    assert 'href="/claims"' in client.get("/climate").text
    while "data-again" in (text := client.get("/fragments/claims").text):
        assert re.search(r"\d+ of \d+ exhibits done|Queued", text)
    assert re.search(r"Of \d+ statements in the papers, \d+ agree here", text)
    assert {"✓", "–"} <= set(re.findall(r"<td>([✓✗?–])</td>", text))
    assert "✓ agrees with the paper" in text
    links = re.findall(r'href="(/exhibits/[^"]+)"', text)
    assert len(links) == len(claims())
    assert {link.partition("/exhibits/")[2] for link in links} == {claim.exhibit for claim in claims()}


def test_an_event_leads_to_the_overview_at_its_time(client, lake):
    starts = [start_ns for (start_ns,) in lake.sql("SELECT start_ns FROM events").rows]
    address = re.search(r'href="(/\?from=[^"]+)"', client.get("/fragments/events").text)[1]
    query = parse_qs(urlparse(html.unescape(address)).query)
    low, high = (parse_time_ns(query[name][0], zone_named("UTC")) for name in ("from", "to"))
    assert any(low <= start_ns < high for start_ns in starts)


def test_figures_are_drawn_for_the_screen_that_asks(client):
    widths = {}
    for screen in ("wide", "narrow", "wide", "something else"):
        text = client.get("/fragments/filesystems", headers={"ioweather-screen": screen}).text
        widths[screen] = [float(px) for px in re.findall(r'<svg role="img"[^>]* width="([0-9.]+)"', text)]
        assert len(widths[screen]) == text.count("<figure") > 0
    assert max(widths["narrow"]) < 400 < min(widths["wide"])
    assert widths["something else"] == widths["wide"]


def test_projects_lead_to_their_pages(client):
    links = re.findall(r'href="(/projects/[^"]+)"', client.get("/fragments/projects").text)
    assert links
    assert client.get(links[0].replace("/projects/", "/fragments/projects/")).status_code == 200


def test_agents_are_listed_with_what_they_lost(lake, tmp_path):
    moment = now_ns()
    spool = SpoolStatus(str(tmp_path), files=3, bytes=2**20, limit_bytes=2**26, dropped_rows=17)
    write_status(
        Status(
            "node<1>", 1, "b", "r", "running", moment, moment, 10**9, spool,
            targets=(TargetStatus("/scratch", "mount:/scratch", "waiting", 10**9, ticks=50, missed_ticks=4),),
            sources=(SourceStatus("block", "waiting", 10**9, runs=9, failed_runs=2),),
        ),
        tmp_path,
    )  # fmt: skip
    app = create_app(lake.root, [tmp_path], hosts=("testserver",))
    with TestClient(app) as client:
        text = client.get("/fragments/agents").text
        assert "node&lt;1&gt;" in text
        assert "probe /scratch" in text
        assert "17 rows dropped" in text
        assert "The newest data are" in client.get("/fragments/lake").text


def test_quick_periods_count_back_from_the_end_of_the_data(client):
    text = client.get("/climate").text
    assert 'aria-current="true">All</a>' in text
    (start,) = re.findall(r'href="/climate\?from=([\d-]+)">Last week</a>', text)
    chosen = client.get(f"/climate?from={start}").text
    assert 'aria-current="true">Last week</a>' in chosen
    assert f'name="from" value="{start}"' in chosen
    assert 'name="from" value="2026-03-02T10:00"' in client.get("/climate?from=2026-03-02T10:00").text


def test_the_range_is_shared_by_all_links(client):
    text = client.get("/?from=2026-03-02T10:00Z&to=2026-03-02T12:00Z").text
    links = re.findall(r'(?:href|data-fragment)="(/(?!static|figures|api/v1|\?)[^"]*)"', text)
    assert links
    for link in links:
        assert "from=2026-03-02T10%3A00Z&amp;to=2026-03-02T12%3A00Z" in link or "Last" in text.split(link)[1][:40], link


def test_a_jobs_page_says_nothing_twice(client, job_id):
    text = client.get(f"/fragments/jobs/{job_id}").text
    headings = re.findall(r"<h2>([^<]+)</h2>", text)
    assert len(headings) == len(set(headings))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert text.count("Unhealthy components during the run") in (0, 2), "a table, with its label"


def test_targets_now_are_those_with_the_highest_newest_rates(client, lake):
    text = client.get("/fragments/targets", params={"where": "scratch"}).text
    with lake.snapshot() as snapshot:
        rates = snapshot.query(
            "SELECT component, sum(value / interval_ns) FROM series WHERE component_kind = 'ost' AND metric IN "
            "('read_bytes', 'write_bytes') AND start_ns = (SELECT max(start_ns) FROM series "
            "WHERE metric = 'read_bytes' AND component_kind = 'ost') GROUP BY 1 ORDER BY 2 DESC"
        ).fetchall()
    assert re.findall(r'href="/components/([^"]+OST[^"]+)"', text)[0] == rates[0][0]
    assert 'data-every="5"' in client.get("/filesystems/scratch").text
    assert "no samples" in client.get("/fragments/targets", params={"where": "nowhere"}).text


def test_a_past_range_and_old_data_are_described_at_their_end_and_not_now(client):
    past = "from=2026-03-02T06:00Z&to=2026-03-02T09:00Z"
    for part in ("filesystems", "summary"):
        assert " now" not in client.get(f"/fragments/{part}?{past}").text
        assert " now" not in client.get(f"/fragments/{part}").text
    assert "the end of the data (" in client.get("/fragments/summary").text
    assert "the newest data" not in client.get(f"/fragments/summary?{past}").text
    assert "at 2026-03-02 09:00" in client.get(f"/fragments/filesystems?{past}").text


def test_only_pages_below_storage_have_its_breadcrumb(client):
    assert 'class="crumbs"' not in client.get("/fragments/storage_home").text
    assert 'class="crumbs"' in client.get("/fragments/storage?where=scratch").text
