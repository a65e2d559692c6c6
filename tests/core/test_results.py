"""Results survive JSON, and refuse what cannot be drawn or read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ioweather.core.results import (
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Provenance,
    Published,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
    exhibit_from_json,
    quantity_label,
    to_jsonable,
)

TABLE = ResultTable(
    "t", (ResultColumn("x", unit="time_ns"), ResultColumn("y", "rate", "bytes_per_s")), ((1, 2.0), (2, None))
)


def test_an_exhibit_survives_json():
    exhibit = Exhibit(
        "car11.fig7", "CDF", (TABLE,),
        (Chart("timeline", TABLE, {"x": "x", "y": "y"}, references=(Reference("y", 1.0),)),),
        (Estimate("mean", 1.0, "bytes_per_s", 0.5, 1.5, 0.9, 10, "bootstrap"),), (Finding("f", "supported"),), ("c",),
        (Coverage(10, 9, "steps", {"gap": 1}),), (Published("car11.fig7", "mean", 1984, "mib_per_s", "fig. 7"),),
        Provenance("lake", {"series": 3}, {"p": 1}),
    )  # fmt: skip
    assert exhibit_from_json(json.loads(json.dumps(to_jsonable(exhibit)))) == exhibit


def test_ragged_rows_and_unknown_units_are_refused():
    with pytest.raises(ValueError, match="cells"):
        ResultTable("t", TABLE.columns, ((1,),))
    with pytest.raises(ValueError, match="unit"):
        ResultColumn("x", unit="furlongs")
    with pytest.raises(ValueError, match="unit"):
        Estimate("x", 1.0, "furlongs")


@pytest.mark.parametrize(
    ("name", "unit", "label"),
    [
        ("below_third_of_peak_ratio", "ratio", "below third of peak share"),
        ("moved[shared_input013]", "bytes", "moved [shared_input013]"),
        ("D_U_M_mean[ESB]", "seconds", "D_U_M mean [ESB]"),
        ("io_time", "seconds", "I/O time"),
    ],
)
def test_quantities_are_named_for_people(name: str, unit: str, label: str) -> None:
    assert quantity_label(name, unit) == label


def test_columns_are_written_as_name_heading_and_unit():
    written = columns_of("job_id: job; user [text]; low: 90% from [seconds]; when: day (UTC+01:00) [time_ns]; n")
    assert written == (
        ResultColumn("job_id", "job"),
        ResultColumn("user", "", "text"),
        ResultColumn("low", "90% from", "seconds"),
        ResultColumn("when", "day (UTC+01:00)", "time_ns"),
        ResultColumn("n"),
    )


@pytest.mark.parametrize("text", ["", "two words", "a [text", "a;", "a [furlongs]"])
def test_a_column_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="column"):
        columns_of(text)


def test_an_exhibit_puts_each_piece_in_its_place_in_the_order_it_came():
    table = ResultTable("t", columns_of("x [count]"), ((1,),))
    one, two = Estimate("one", 1.0), Estimate("two", 2.0)

    @exhibit("pat19.fig3")
    def made(first: Estimate) -> Iterator[Piece]:
        """Its own words."""
        yield "a caveat"
        yield first, [Finding("a finding")], ()
        yield Chart("bars", table, {"x": "x", "y": "x"}), (two, Coverage(2, 1, "steps"))
        yield table

    got = made(one)
    assert got.estimates == (one, two)
    assert got.caveats == ("a caveat",)
    assert (got.id, got.tables, got.findings) == ("pat19.fig3", (table,), (Finding("a finding"),))
    assert (len(got.charts), got.coverage, made.__doc__) == (1, (Coverage(2, 1, "steps"),), "Its own words.")
