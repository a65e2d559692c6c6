"""Pages: one file, nothing from outside, nothing that data could break."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from ioweather.core.results import (
    Answer,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Provenance,
    Published,
    ResultColumn,
    ResultTable,
)
from ioweather.core.units import NS
from ioweather.ui.charts.page import (
    Drawn,
    answer_html,
    answer_section,
    exhibit_html,
    exhibit_section,
    fragment_html,
    html_page,
    table_html,
)

LIVE = Drawn(live=True)
NASTY = "<script>alert(\"1\")</script> & 'x' </style>"


class Reader(HTMLParser):
    """What a browser would see: elements, ids, headings, and whether everything is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def exhibit(charts: Mapping[str, Chart]) -> Exhibit:
    columns = (
        ResultColumn("p", "Project", "text"),
        ResultColumn("b", "Read", "bytes"),
        ResultColumn("t", "", "time_ns"),
    )
    table = ResultTable("t", columns, ((NASTY, 3.0 * 2**40, 1_756_684_800_000_000_000), ("b", None, None)), NASTY)
    return Exhibit(
        "car11.fig7", NASTY, tables=(table,), charts=(charts["bars"], charts["heatmap"]),
        estimates=(
            Estimate("share below a third", 0.992, "ratio", 0.98, 0.995, 0.95, 8700, "bootstrap"),
            Estimate("mean", None, "bytes_per_s", method="no interval: nothing measured"),
        ),
        findings=(Finding(NASTY, "supported"), Finding("No.", "refuted"), Finding("Maybe.", "undecided")),
        caveats=(NASTY,), coverage=(Coverage(100, 80, "days", {"gap": 20}, "Two months."), Coverage(0, 0, "jobs")),
        published=(
            Published("car11.fig7", "share below a third", 0.99, "ratio", "Figure 7", "more than"),
            Published("car11.fig7", "peak", 36, "", "Section IV", NASTY),
        ),
        provenance=Provenance("lake", {"series": 3}, {"system": NASTY}, "abc", "def", "0.1.0", 1_756_684_800 * NS),
    )  # fmt: skip


@pytest.fixture(scope="module")
def answer(exhibit: Exhibit) -> Answer:
    facts = (
        Fact("io_seconds", "I/O time", 3900.0, "seconds", 0.62, NASTY),
        Fact("unknown", "Unknown", None),
        Fact("over", "Over", 2.0, "factor", 1.7),
    )
    return Answer(
        f"why {NASTY}", "It was the system.", (FactGroup("job", "Your job", facts),), (exhibit,), exhibit.findings,
        exhibit.caveats, exhibit.coverage, exhibit.provenance,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(exhibit: Exhibit, answer: Answer) -> dict[str, str]:
    return {
        "exhibit": exhibit_html(exhibit),
        "answer": answer_html(answer),
        "live": html_page("Live", [answer_section(answer, 1, LIVE)]),
        "fragment": fragment_html(exhibit),
        "empty": exhibit_html(Exhibit("x.table1", "Nothing")),
    }


def test_well_formed_and_escaped(pages: dict[str, str]) -> None:
    for page in pages.values():
        reader = Reader(page)
        assert not any(attributes.get("type") != "application/json" for attributes in reader.all("script"))
        assert "alert(" not in "".join(re.findall(r"<script.*?</script>", page, flags=re.DOTALL))


def test_nothing_comes_from_outside(pages: dict[str, str]) -> None:
    for page in pages.values():
        addresses = set(re.findall(r"""\w+://[^"'\s<)]+""", page))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
        for _, attributes in Reader(page).elements:
            assert not {"src", "srcset", "action", "background", "poster"} & set(attributes)
            assert (attributes.get("href") or "#").startswith("#")
            assert not any(name.startswith("on") for name in attributes)


def test_ids_are_unique_and_every_reference_has_its_target(pages: dict[str, str]) -> None:
    for page in pages.values():
        ids = [a["id"] for _, a in Reader(page).elements if "id" in a]
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_headings_descend_one_level_at_a_time(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        levels = [int(tag[1]) for tag, _ in Reader(page).elements if re.fullmatch(r"h[1-6]", tag)]
        if name != "fragment":
            assert levels[0] == 1
            assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


def test_language_title_and_descriptions(pages: dict[str, str]) -> None:
    reader = Reader(pages["answer"])
    assert reader.all("html") == [{"lang": "en"}]
    pictures = reader.all("svg")
    assert all(a.get("role") == "img" and a.get("aria-label") for a in pictures)
    assert any("Bar chart: Volume" in (a["aria-label"] or "") for a in pictures)
    assert all(a.get("scope") in ("row", "col") for a in reader.all("th"))


def test_a_page_allows_no_script_and_loads_nothing(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        if name != "fragment":
            (policy,) = [a["content"] for a in Reader(page).all("meta") if "http-equiv" in a]
            assert "default-src 'none'" in (policy or "")
            assert "script-src 'none'" in (policy or "")


def test_a_live_figure_carries_its_specifications_beside_the_drawings(answer: Answer) -> None:
    still, live = answer_section(answer), answer_section(answer, 1, LIVE)
    assert "application/json" not in still
    blocks = re.findall(r'<figure class="chart" data-live>.*?<script type="application/json"[^>]*>(.*?)</script>', live)
    assert len(blocks) == live.count("<figure") == still.count("<figure")
    for block in blocks:
        assert {"description", "config"} < set(json.loads(block))


def test_values_are_in_the_units_people_read(pages: dict[str, str]) -> None:
    words = Reader(pages["exhibit"]).words
    for text in ("3 TiB", "99%", "98% to >99% (95%)", "8,700", "2025-09-01 00:00:00Z", "–", ">99%", "bootstrap"):
        assert text in words, text
    assert any("80 of 100 days (80%), Two months; left out: 20 gap." in word for word in words)
    assert any(word.startswith("0 of 0 jobs") for word in words)
    assert NASTY in words


def test_a_published_value_stands_beside_ours(pages: dict[str, str]) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", pages["exhibit"])
    row = [row for row in rows if "share below a third" in row][-1]
    assert re.findall(r">([^<]+)</t", row)[:3] == ["share below a third", "&gt;99%", "99%"]


def test_long_tables_say_what_is_missing() -> None:
    table = ResultTable("t", (ResultColumn("n", "", "count"),), tuple((i,) for i in range(1000)))
    assert "600 more rows are not shown" in table_html(table)


def test_an_empty_table_says_none() -> None:
    columns = (ResultColumn("n", "", "count"),)
    assert table_html(ResultTable("t", columns, (), "Gaps")) == '<p class="quiet">Gaps: none.</p>'
    assert table_html(ResultTable("t", columns, ())) == ""


def test_of_very_many_estimates_the_first_are_shown_and_the_published_all() -> None:
    estimates = tuple(Estimate(f"e{i}", float(i)) for i in range(40))
    exhibit = Exhibit("a.b", "Many", estimates=estimates, published=(Published("a.b", "e39", 1.0),))
    shown, _, rest = exhibit_section(exhibit).partition("<summary>24 more</summary>")
    assert "e15" in shown
    assert "e39" not in shown
    assert "Paper and here" in rest
    assert rest.count("e39") == 2
