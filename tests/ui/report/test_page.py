"""The report is one file: nothing from outside, everything listed is there, and a failing study does not end it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.papers import exhibits
from ioweather.core.results import Exhibit, Finding, Provenance
from ioweather.topics import analyse
from ioweather.topics.source import ask
from ioweather.ui.report import write
from ioweather.ui.report.sheets import actions, find
from ioweather.ui.report.write import (
    LeftOut,
    equation_html,
    front_sheets,
    report_html,
    without_repeats,
    write_report,
)


@pytest.fixture(scope="module")
def page(material, small_lake):
    return report_html(material, front_sheets(small_lake, material, operator=True))


def test_every_exhibit_is_in_the_report_or_named_as_left_out(material, page):
    made = {m.id for m in material.made}
    left_out = {item.id for item in material.left_out}
    assert made | left_out == {entry.id for entry in exhibits()}
    assert not made & left_out
    assert len(made) >= 6
    for exhibit_id in made:
        assert f'id="{exhibit_id}"' in page


def test_nothing_is_loaded_from_anywhere(page):
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page)
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_every_link_has_its_target(page):
    targets = set(re.findall(r'id="([^"]+)"', page))
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links
    assert links <= targets


def test_the_summary_comes_first_and_says_what_is_simulated(page):
    assert page.index("This facility is simulated") < page.index('id="summary"') < page.index('id="contents"')
    assert page.index('id="contents"') < page.index('id="car11"') < page.index('id="methods"')


def test_what_differs_from_the_papers_stands_first_in_the_summary(material):
    claims = (Finding("It agrees.", "supported", "a", "pat19.a"), Finding("It differs.", "refuted", "b", "pat19.b"),
              Finding("It is open.", "undecided", "c", "pat19.c"), Finding("It was measured."))  # fmt: skip
    page = report_html(replace(material, made=(Exhibit("pat19.fig9", "Some", findings=claims),)))
    summary = page.partition('id="contents"')[0]
    assert summary.index("It differs.") < summary.index("It agrees.")
    assert "It is open." not in summary
    assert "It was measured." not in summary
    assert "1 are contradicted here, 1 are supported, and 1 are weaker, undecided" in summary


def test_the_first_sheet_is_for_people_and_the_science_folds(page):
    assert page.count("<h1>") == 1
    first, _, science = page.partition('<details class="appendix">')
    for words in (
        "What to do",
        "Programs with the most time beyond similar",
        "For operators",
        "Runs with the most time beyond",
    ):
        assert words in first
    assert 'id="car11"' in science
    assert "PsiD" not in first


def test_a_director_gets_one_sheet(small_lake, tmp_path):
    found = write_report(small_lake, tmp_path / "d.html", audience="director")
    text = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert not found.made
    assert "For operators" not in text
    assert "appendix" not in text.partition("</style>")[2].partition("<body")[2]
    assert len(text) < 1_000_000


def test_a_change_is_proposed_to_the_project_of_the_named_job_in_the_order_of_triage(small_lake):
    (now,) = find(small_lake, [(0, 2**62)])
    asked = [line for line in actions(small_lake, now) if line.startswith("Ask ")]
    assert asked
    ranked = [(item.project, item.program, item.job_id) for item in ask("triage", small_lake, {}).result.programs]
    runs = {run.job_id: run for run in now.runs}
    places = []
    for line in asked:
        project, program, job = re.match(r"Ask (\S+) about (\S+): .* see job (\d+)\)", line).groups()
        assert (runs[int(job)].project, runs[int(job)].program) == (project, program)
        assert ask("why", small_lake, {"job": job}).result.kind not in ("system", "both")
        places.append(ranked.index((project, program, int(job))))
    assert places == sorted(places)


@pytest.mark.real
def test_no_table_of_the_director_is_cut(small_lake, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium is installed")
    file = tmp_path / "d.html"
    write_report(small_lake, file, audience="director")
    ends = "[...document.querySelectorAll('.first table')].map(table => table.getBoundingClientRect().right)"
    cut = "[...document.querySelectorAll('.first .scroll')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for width, media in ((1200, "screen"), (794, "screen"), (710, "print")):  # 710: A4 within its margins
            page = browser.new_page(viewport={"width": width, "height": 1000})
            page.goto(file.as_uri())
            page.emulate_media(media=media)
            assert 0 < max(page.evaluate(ends)) <= width, media
            assert page.evaluate(cut) == 0, media
            page.close()
        browser.close()


def test_equations_are_set_and_escaped():
    assert equation_html("a_{1} < b^{n}") == "a<sub>1</sub> &lt; b<sup>n</sup>"


def test_a_study_that_fails_is_named_and_the_rest_goes_on(small_lake, few, monkeypatch):
    real = analyse.make_exhibits

    def failing(lake, ids, **options):
        if "pat19.fig3" in ids:
            raise ZeroDivisionError("planted")
        return real(lake, ids, **options)

    monkeypatch.setattr(analyse, "make_exhibits", failing)
    found = write.gather(small_lake)
    reasons = {item.id: item.reason for item in found.left_out}
    assert reasons["pat19.fig3"] == "it failed: ZeroDivisionError: planted"
    assert "pat19.fig4" in {m.id for m in found.made}


def test_names_in_reasons_and_findings_are_escaped(material):
    site = Provenance(params={"filesystem": "<i>fs"})
    hostile = Exhibit(
        "car11.fig2", "<b>", provenance=site, findings=(Finding("<script>alert(1)</script>", "supported"),)
    )
    planted = replace(material, made=(hostile,), left_out=(LeftOut("car11.fig3", "t", "<img src=x onerror=y>"),))
    text = report_html(planted)
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "<i>fs" not in text


def test_an_exhibit_of_a_second_file_system_stands_beside_the_first():
    scratch, home = (Provenance(params={"filesystem": name}) for name in ("scratch", "home"))
    first, again = (Exhibit(x, "x", provenance=scratch) for x in ("pat19.fig3", "pat19.fig3@scratch"))
    made = (first, again, Exhibit("pat19.fig3@home", "x", provenance=home))
    assert [exhibit.id for exhibit in without_repeats(made)] == ["pat19.fig3", "pat19.fig3@home"]


def test_an_unknown_format_is_refused_before_the_work(small_lake, tmp_path):
    with pytest.raises(UsageError, match="--out"):
        write_report(small_lake, tmp_path / "report.docx")


def test_a_period_without_data_leaves_everything_out(small_lake, few, tmp_path):
    found = write_report(small_lake, tmp_path / "empty.html", period_ns=(0, 1))
    assert (tmp_path / "empty.html").exists()
    assert found.left_out


@pytest.mark.slow
def test_the_whole_catalogue_fits_a_ticket(small_lake, tmp_path):
    found = write_report(small_lake, tmp_path / "all.html")
    assert len(found.made) > 40
    assert not [item for item in found.left_out if item.reason.startswith("it failed")]
    assert (tmp_path / "all.html").stat().st_size < 15_000_000
