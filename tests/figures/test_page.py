"""Pages: one file, nothing from outside, nothing that data could break."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

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
from ioweather.figures import answer_html, exhibit_fragment, exhibit_html, html_page, table_html

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
            Published("car11.fig7", "Share below a third", 0.99, "ratio", "Figure 7"),
            Published("car11.fig7", "peak", 36, "", "Section IV", NASTY),
        ),
        provenance=Provenance("lake", {"series": 3}, {"system": NASTY}, "abc", "def", "0.1.0", 1_756_684_800 * NS),
    )  # fmt: skip


@pytest.fixture(scope="module")
def answer(exhibit: Exhibit) -> Answer:
    facts = (Fact("I/O time", 3900.0, "seconds", 0.62, NASTY), Fact("Unknown", None), Fact("Over", 2.0, "factor", 1.7))
    return Answer(
        f"why {NASTY}", "It was the system.", (FactGroup("Your job", facts),), (exhibit,), exhibit.findings,
        exhibit.caveats, exhibit.coverage, exhibit.provenance,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(exhibit: Exhibit, answer: Answer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield _pages(exhibit, answer)


def _pages(exhibit: Exhibit, answer: Answer) -> dict[str, str]:
    return {
        "exhibit": exhibit_html(exhibit),
        "answer": answer_html(answer),
        "interactive": answer_html(answer, interactive=True),
        "fragment": exhibit_fragment(exhibit),
        "empty": exhibit_html(Exhibit("x.table1", "Nothing")),
    }


def without_bundle(page: str) -> str:
    """The page without Vega itself, whose sources name addresses (namespaces, licences) that it never loads."""
    return re.sub(r'<script type="module">.*?</script>', "", page, flags=re.DOTALL)


def test_well_formed_and_escaped(pages: dict[str, str]) -> None:
    for page in pages.values():
        reader = Reader(without_bundle(page))
        assert not any(attributes.get("type") != "application/json" for attributes in reader.all("script"))
        assert "alert(" not in "".join(re.findall(r"<script.*?</script>", without_bundle(page), flags=re.DOTALL))


def test_nothing_comes_from_outside(pages: dict[str, str]) -> None:
    for page in pages.values():
        text = without_bundle(page)
        addresses = set(re.findall(r"""\w+://[^"'\s<)]+""", text))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
        for _, attributes in Reader(text).elements:
            assert not {"src", "srcset", "action", "background", "poster"} & set(attributes)
            assert (attributes.get("href") or "#").startswith("#")
            assert not any(name.startswith("on") for name in attributes)


def test_ids_are_unique_and_every_reference_has_its_target(pages: dict[str, str]) -> None:
    for page in pages.values():
        text = without_bundle(page)
        ids = [a["id"] for _, a in Reader(text).elements if "id" in a]
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def test_headings_descend_one_level_at_a_time(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        levels = [int(tag[1]) for tag, _ in Reader(without_bundle(page)).elements if re.fullmatch(r"h[1-6]", tag)]
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


def test_the_policy_names_exactly_the_scripts_of_the_page(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        if name == "fragment":
            continue
        (policy,) = [a["content"] for a in Reader(without_bundle(page)).all("meta") if "http-equiv" in a]
        assert policy is not None
        scripts = re.findall(r'<script type="module">(.*?)</script>', page, flags=re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
        assert re.findall(r"'sha256-([^']+)'", policy) == digests
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        assert len(scripts) == (2 if name == "interactive" else 0)


def test_values_are_in_the_units_people_read(pages: dict[str, str]) -> None:
    words = Reader(pages["exhibit"]).words
    for text in ("3 TiB", "99.2%", "98% to 99.5% (95%)", "8,700", "2025-09-01 00:00:00Z", "–", "99%", "bootstrap"):
        assert text in words, text
    assert any("80 of 100 days (80%); left out: gap 20. Two months." in word for word in words)
    assert any(word.startswith("0 of 0 jobs") for word in words)
    assert NASTY in words


def test_a_published_value_stands_beside_ours(pages: dict[str, str]) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", pages["exhibit"])
    (row,) = [row for row in rows if "share below a third" in row]
    assert re.findall(r">([^<]+)</t", row)[:3] == ["share below a third", "99.2%", "99%"]
    assert any("peak" in row and "Section IV" in row for row in rows)


def test_shares_are_bars_that_stay_in_their_track(pages: dict[str, str]) -> None:
    widths = re.findall(r'class="share" width="([\d.]+)"', pages["answer"])
    assert widths == ["62.0", "100.0"]


def test_a_drawn_page_is_small_and_an_interactive_one_is_not(pages: dict[str, str]) -> None:
    """Why drawings are the default."""
    assert len(pages["exhibit"]) < 250_000
    assert len(pages["interactive"]) > 800_000


def test_light_and_dark_can_be_fixed(exhibit: Exhibit) -> None:
    light, dark, auto = (html_page("t", [], theme) for theme in ("light", "dark", "auto"))  # type: ignore[arg-type]
    assert "prefers-color-scheme" not in light + dark
    assert "#15191f" not in light
    assert "#15191f" in dark
    assert "screen and (prefers-color-scheme:dark)" in auto


def test_long_tables_say_what_is_missing() -> None:
    table = ResultTable("t", (ResultColumn("n", "", "count"),), tuple((i,) for i in range(1000)))
    assert "600 more rows are not shown" in table_html(table)
    assert "No rows" in table_html(ResultTable("t", table.columns, ()))


@pytest.mark.real
def test_chromium_draws_under_the_policy(pages: dict[str, str], tmp_path: Path) -> None:
    """The interactive page draws without eval, and says nothing on the console."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no chromium")
    page = tmp_path / "page.html"
    page.write_text(pages["interactive"])
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", "--dump-dom"]  # fmt: skip
    run = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.count("<canvas") == 2
    assert "could not be drawn" not in re.sub(r"<script.*?</script>", "", run.stdout, flags=re.DOTALL)
    assert "CONSOLE" not in run.stderr
