"""Numbers as papers print them."""

from __future__ import annotations

import pytest

from ioweather.core.papers import parse_printed
from ioweather.core.units import UNITS


@pytest.mark.parametrize(
    ("text", "value", "unit", "bound"),
    [
        ("6,481", 6481, "count", ""),
        (">8 PB", 8 * 10**15, "bytes", ">"),
        ("31.7 GiB/s", 31.7 * 2**30, "bytes_per_s", ""),
        ("853 GiB/min", 853 * 2**30 / 60, "bytes_per_s", ""),
        ("+682.1%", 6.821, "ratio", ""),
        ("<0.05%", 0.0005, "ratio", "<"),
        (">=1,024", 1024, "count", ">="),
        ("~.1 ms", 0.0001, "seconds", "~"),
        ("6.5 d", 561_600, "seconds", ""),
        ("10 GbE", 1.25e9, "bytes_per_s", ""),
        ("586 k/min", 586_000 / 60, "ops_per_s", ""),
        ("209.5 M", 209_500_000, "count", ""),
        ("1.1e-04 GiB", 1.1e-4 * 2**30, "bytes", ""),
        ("28x", 28, "factor", ""),
        ("0.17 MiB/s/CN", 0.17, "mib_per_s_per_node", ""),
    ],
)
def test_value_unit_and_bound(text: str, value: float, unit: str, bound: str) -> None:
    number = parse_printed(text)
    assert number.value == pytest.approx(value, rel=1e-15)
    assert (number.unit, number.bound) == (unit, bound)
    assert unit in UNITS


def test_whole_counts_and_bytes_stay_integers() -> None:
    assert isinstance(parse_printed("16 TiB").value, int)
    assert isinstance(parse_printed("96.2 M").value, int)


def test_a_bare_number_takes_the_unit_of_its_column() -> None:
    assert parse_printed("-.05", "").value == -0.05
    assert parse_printed("95", "%").value == 0.95


@pytest.mark.parametrize("text", ["", "about 7", "7 furlongs", "7 %%", "1.2.3", "-"])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_printed(text)
