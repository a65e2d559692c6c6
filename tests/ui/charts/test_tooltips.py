"""What the pointer shows is what the rest of the program prints."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
import vl_convert

from ioweather.core.results import ResultColumn
from ioweather.core.units import UNITS, format_value
from ioweather.ui.charts.panels import tooltip

VALUES = (0.0, 1.5e-5, 0.0123, 0.5, 1.0, 12.0, 99.0, 130.0, 1024.0, 4000.0, 86_400.0, 3.3e9, 7.5e12)
NUMERIC = sorted(UNITS - {"text", "date", "time_ns"})


@pytest.fixture(scope="module")
def shown() -> list[list[str]]:
    """Vega's own evaluation of all texts, in one drawing."""
    layers: list[dict[str, Any]] = []
    for unit in [*NUMERIC, "time_ns"]:
        channel, transforms = tooltip({"v": ResultColumn("v", "", unit)})
        values = [{"v": v * 1000 if unit == "time_ns" else v} for v in VALUES] + [{"v": None}]
        encoding = {"text": {"field": channel[0]["field"], "type": "nominal"}}
        layers.append({"data": {"values": values}, "transform": transforms, "mark": "text", "encoding": encoding})
    svg = vl_convert.vegalite_to_svg({"layer": layers})
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")]
    size = len(VALUES) + 1
    assert len(texts) == size * len(layers)
    return [texts[i : i + size] for i in range(0, len(texts), size)]


def number_and_unit(text: str) -> tuple[float, str]:
    match = re.fullmatch(r"([-−]?[\d,.]+(?:e[-+]?\d+)?)(.*)", text)
    assert match, text
    return float(match[1].replace(",", "").replace("−", "-")), match[2].strip()


@pytest.mark.parametrize("unit", NUMERIC)
def test_numbers_read_as_everywhere(shown: list[list[str]], unit: str) -> None:
    for value, text in zip(VALUES, shown[NUMERIC.index(unit)], strict=False):
        if format_value(value, unit)[0] in "<>":  # a bound, where the pointer shows the number
            continue
        number, suffix = number_and_unit(text)
        expected, expected_suffix = number_and_unit(format_value(value, unit))
        assert suffix == expected_suffix or value == 0
        # Elsewhere small numbers have two decimals, percentages two digits, and bytes none; the pointer shows more.
        rel = 5e-2 if unit in ("percent", "ratio") else 6e-3
        assert number == pytest.approx(expected, rel=rel, abs=0.5 if suffix in ("B", "B/s") else 6e-3)


def test_missing_is_a_dash(shown: list[list[str]]) -> None:
    assert {texts[-1] for texts in shown[:-1]} == {"–"}


def test_times_are_utc(shown: list[list[str]]) -> None:
    assert shown[-1][VALUES.index(86_400.0)] == "1970-01-02 00:00:00 UTC"
