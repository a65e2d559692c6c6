"""An exhibit is ready, empty (and says why) or not possible; one without content is never counted as made."""

from __future__ import annotations

from ioweather.core.results import Chart, Estimate, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.topics.analyse import Availability
from ioweather.ui.report.write import LeftOut, _outcome

ROWS = ResultTable("t", (ResultColumn("x"), ResultColumn("y")), ((1.0, 2.0),))
NONE = ResultTable("t", ROWS.columns, ())


def test_what_has_a_row_or_a_chart_is_made() -> None:
    assert Exhibit("a.b", tables=(NONE, ROWS)).empty_because == ""
    assert Exhibit("a.b", charts=(Chart("scatter", ROWS, {"x": "x", "y": "y"}),)).empty_because == ""


def test_what_has_none_says_why() -> None:
    why, claim = Finding("No log of it.", "undecided"), Finding("Cannot be told.", "undecided", "c", "car11.c")
    assert Exhibit("a.b", tables=(NONE,), findings=(claim, why)).empty_because == "No log of it."
    assert Exhibit("a.b", caveats=("Nothing was sampled.",)).empty_because == "Nothing was sampled."
    assert Exhibit("a.b").empty_because
    # Counts of nothing and numbers that are not known show nothing either.
    none = Estimate("share", None, "ratio"), Estimate("odd", 0, "count", n=0)
    assert Exhibit("a.b", tables=(NONE,), estimates=none, findings=(why,)).empty_because == "No log of it."
    assert Exhibit("a.b", estimates=(Estimate("odd", 0, "count", n=3),)).empty_because == ""


def test_the_report_lists_it_as_left_out() -> None:
    found = _outcome("car11.table1", Exhibit("car11.table1", findings=(Finding("No log of it.", "undecided"),)))
    assert found == LeftOut("car11.table1", "", "empty: No log of it.")
    made = Exhibit("car11.table1", tables=(ROWS,))
    assert _outcome("car11.table1", made) is made


def test_a_state_in_words() -> None:
    assert Availability("a.b", "", "s", True).state == "ready"
    assert Availability("a.b", "", "s", False, ("no rows in `scans`",)).state == "not possible: no rows in `scans`"
    assert Availability("a.b", "", "s", False, empty="no pair").state == "empty: no pair"
