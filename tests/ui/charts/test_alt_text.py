"""A chart in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ioweather.core.results import Chart, ResultTable
from ioweather.ui.charts.chart_data import describe


def test_says_what_is_on_the_axes_and_how_far_it_reaches(charts: Mapping[str, Chart]) -> None:
    text = describe(charts["timeline"])
    assert text.startswith("Timeline: Throughput. time 2025-09-01 00:00:00Z to 2025-09-02 15:50:00Z; rate ")
    assert "Series: read, write." in text


def test_every_kind_has_words(charts: Mapping[str, Chart]) -> None:
    for chart in charts.values():
        text = describe(chart)
        assert chart.title in text
        assert text.endswith(".")
        assert not re.search(r"\bnan\b", text)
        assert len(text) < 600


def test_no_data(charts: Mapping[str, Chart]) -> None:
    chart = charts["bars"]
    assert describe(replace(chart, table=ResultTable("t", chart.table.columns, ()))) == "Bar chart: Volume. no data."
