"""The five papers, their 67 exhibits and every number they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS, as_printed, document, exhibit_entry, exhibits, published, values_of
from ioweather.core.results import Published
from ioweather.core.units import UNITS

ALL_IDS = [entry.id for entry in exhibits()]
NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![A-Za-z\d])\d+(?:\.\d+)?(?:e-?\d+)?|(?<![\d.])\.\d+")


def context(key: str) -> list[Published]:
    """What a paper prints about its system, period and method: numbers that belong to no exhibit."""
    return [value for block in document(key).get("context", ()) for value in values_of({"id": key, **block})]


def everything(key: str) -> list[Published]:
    return [*context(key), *(value for entry in PAPERS[key].exhibits for value in published(entry.id))]


def value_of(exhibit: str, quantity: str) -> Published:
    return next(value for value in published(exhibit) if value.quantity == quantity)


def test_five_papers_with_all_that_a_citation_needs() -> None:
    assert list(PAPERS) == ["car11", "don15", "kun19", "mad17", "pat19"]
    for key, paper in PAPERS.items():
        assert paper.key == key
        assert paper.authors
        assert paper.title
        assert paper.venue
        assert f"{paper.year % 100}" == key[-2:]
        assert re.fullmatch(r"10\.\d{4}/\S+", paper.doi)
        assert paper.title in paper.citation


@pytest.mark.parametrize("key", list(PAPERS))
def test_every_value_has_a_known_unit_a_place_and_its_own_name(key: str) -> None:
    values = everything(key)
    names = [(value.exhibit, value.quantity) for value in values]
    assert len(names) == len(set(names))
    for value in values:
        assert value.unit in UNITS, value
        assert value.place, value
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(\[[^\[\]]+\])?", value.quantity), value
        assert (value.value is None) == ("printed as a dash" in value.note), value
        if value.unit in ("text", "date"):
            assert isinstance(value.value, str), value
        if value.unit == "date":
            assert re.fullmatch(r"\d{4}-\d{2}(-\d{2}( \d{2}:\d{2})?)?", str(value.value)), value


def tokens_of(text: str) -> set[str]:
    return set(NUMBER.findall(text))


def shown_numbers(values: list[Published]) -> set[float]:
    """Every number that stands anywhere in these values: as value, in its note, its place or its name's brackets."""
    texts = (f"{v.value} ; {v.note} ; {v.place} ; {v.quantity.partition('[')[2]}" for v in values)
    found = {float(token.replace(",", "")) for text in texts for token in tokens_of(text)}
    return found | {abs(float(v.value)) for v in values if isinstance(v.value, (int, float))}


def is_shown(token: str, shown: set[float]) -> bool:
    """'1,382' is one number; '72,156' may be two, of two systems."""
    return float(token.replace(",", "")) in shown or all(float(part) in shown for part in token.split(","))


def exhibits_of(label: str, key: str) -> list[str]:
    """Exhibits that a line's label names: 'table2 totals', 'fig1/bands', 'fig9-12', 'fig2, fig7'."""
    covered = {("mad17", "fig4"): "fig3", ("mad17", "fig5"): "fig3", ("don15", "samples"): "table2"}
    names = [covered.get((key, name), name) for name in re.findall(r"[a-z]+\d*", label)]
    return [f"{key}.{name}" for name in names if f"{key}.{name}" in ALL_IDS]


def published_lines(text: str, key: str) -> list[tuple[str, str]]:
    """(label, rest) of each statement of one paper; a line that begins with a space goes on with the one before."""
    block = re.search(rf"^## {key} .*?```\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    joined = re.sub(r"\n ", " ", block[1])
    lines = re.sub(r"\. (fig\d+: )", r"\n\1", joined).splitlines()  # 'fig3: ... fig4: ...' are two statements
    return [(label, rest) for label, _, rest in (line.partition(":") for line in lines if line)]


def _check_that_the_exhibits_are_those_of_the_methods(shared_data: Path) -> None:
    methods = (shared_data.parent / "METHODS.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:car11|don15|kun19|mad17|pat19)\.\w+) \|", methods, re.MULTILINE)
    assert sorted(rows) == sorted(ALL_IDS)


@pytest.mark.shared
def test_no_exhibit_and_no_published_number_is_left_out(shared_data: Path) -> None:
    _check_that_the_exhibits_are_those_of_the_methods(shared_data)
    text = (shared_data.parent / "PUBLISHED.md").read_text("utf-8")
    for key in PAPERS:
        _check_numbers(key, published_lines(text, key))


def _check_numbers(key: str, lines: list[tuple[str, str]]) -> None:
    assert len(lines) > 5
    for label, rest in lines:
        named = exhibits_of(label, key)
        values = [v for exhibit in named for v in published(exhibit)] if named else everything(key)
        shown = shown_numbers(values)
        missing = sorted(token for token in tokens_of(rest) if not is_shown(token, shown))
        assert not missing, f"{key}, {label}: {missing}"


def test_values_are_in_the_units_of_the_house() -> None:
    assert value_of("car11.fig6", "peak_minute_read").value == pytest.approx(31.7 * 2**30)
    assert value_of("car11.table4", "metadata_ratio[EarthScience]").value == 0.95
    assert value_of("car11.table5", "per_node[F]").value == 0.0009
    assert value_of("mad17.table3", "pearson_read[ESB]").value == 0.55
    assert value_of("mad17.table4", "mutual_information_write[NPB]").value == 0.54
    assert value_of("mad17.table2", "D_J_sd[NPC]").value == 334.3
    assert value_of("pat19.table1", "clusters_write[>=100]").value == 884
    assert value_of("pat19.fig7", "mean_interarrival_write").value == pytest.approx(17.55 * 60)
    assert value_of("don15.table2", "observations[Hopper-Cache]").value == 1_581_364
    assert value_of("kun19.bands", "read_band_disk[home]").value == 0.01


def test_the_printed_differences_of_a_table_follow_from_its_counts() -> None:
    """pat19 Table 1: % = (W - R) / R. The paper's own arithmetic checks the typed digits."""
    for degree in (">=10", ">=25", ">=50", ">=75", ">=100"):
        read, write = (value_of("pat19.table1", f"clusters_{way}[{degree}]").value for way in ("read", "write"))
        difference = value_of("pat19.table1", f"difference[{degree}]").value
        assert isinstance(read, int)
        assert isinstance(write, int)
        assert isinstance(difference, float)
        # The paper rounds 26.4% up to 27%.
        assert (write - read) / read == pytest.approx(difference, abs=0.01)


def test_growth_of_a_table_follows_from_its_scans() -> None:
    """car11 Table III."""
    for name in ("used", "files", "used_project", "files_project"):
        january, march = (value_of("car11.table3", f"{name}[{month}]").value for month in ("January", "March"))
        base, _, suffix = name.partition("_")
        growth = value_of("car11.table3", f"{base}_growth" + (f"_{suffix}" if suffix else "")).value
        assert isinstance(january, (int, float))
        assert isinstance(march, (int, float))
        assert march / january - 1 == pytest.approx(growth, abs=0.01)


def test_bounds_stay_bounds() -> None:
    assert as_printed(value_of("pat19.fig4", "below_mean_ratio_write")) == ">75%"
    assert as_printed(value_of("pat19.fig15", "mean_load")) == "<2%"
    assert as_printed(value_of("car11.fig10", "filter_processes")) == "≥1,024"
    assert as_printed(value_of("car11.projects", "instances_per_job[EarthScience]")) == "≤22"
    assert as_printed(value_of("car11.fig11", "io_time[original]")).startswith("~")
    assert as_printed(value_of("car11.fig6", "peak_minute_read")) == "31.7 GiB/s"
    assert value_of("pat19.fig15", "mean_load").note.startswith("less than")


def test_contradictions_are_kept_and_marked() -> None:
    assert "6,481" in value_of("car11.table2", "jobs_instrumented").note
    assert "100.2" in value_of("don15.fig5", "head_ratio_mean").note
    assert "28%" in value_of("pat19.fig13", "not_closed_ratio").note
    assert any(value.note == "[sic]" for value in context("car11"))


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"mad17\.table3"):
        published("mad17.table9")
    with pytest.raises(UsageError, match="ioweather show"):
        exhibit_entry("nobody.fig1")
    with pytest.raises(KeyError):
        PAPERS["nobody"]
    assert "nobody" not in PAPERS
