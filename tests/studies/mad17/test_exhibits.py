"""mad17's three shapes (strong, mild, none) are found again in planted runs, and shared steps do not pass for cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_jobs import cells, estimate, words

from ioweather.core.errors import UsageError
from ioweather.studies.mad17.association import Pairing, association_findings
from ioweather.studies.mad17.coefficients import associate
from ioweather.studies.mad17.curves import curve_exhibits
from ioweather.studies.mad17.explained_traffic import association_data
from planted_association import PARAMS, made, planted_association, site
from planted_source import PlantedSource


@pytest.fixture(scope="module")
def data() -> PlantedSource:
    return planted_association()


@pytest.fixture(scope="module")
def exhibits(data):
    return made("association", data)


def group(exhibits, program):
    return next(row["group"] for row in cells(exhibits["mad17.table1"]) if row["group"].startswith(program))


def finding(exhibit, program):
    return next(f for f in exhibit.findings if f.text.startswith(program) and "association" in f.text)


@pytest.mark.parametrize(("program", "strength"), [("strong", "strong"), ("mild", "mild"), ("none", "no")])
def test_the_three_shapes(exhibits, program, strength):
    found = finding(exhibits["mad17.table3"], program)
    assert f": {strength} association" in found.text
    assert (found.kind == "note") == (program == "strong")
    assert f": {strength} association" in finding(exhibits["mad17.table4"], program).text


def test_writes_that_nobody_waits_for_correlate_by_shared_steps_alone(exhibits):
    """The planted writes are shuffled in time: the coefficient is high, that of the rate and the moved runs say why."""
    (row,) = cells(exhibits["mad17.table3"], group=group(exhibits, "strong"), way="write", measure="Spearman")
    assert row["value"] > 0.6
    assert abs(row["rate"]) < 0.25
    assert row["null_p"] > 0.05
    (reads,) = cells(exhibits["mad17.table3"], group=group(exhibits, "strong"), way="read", measure="Spearman")
    assert reads["rate"] > 0.8
    assert reads["null_p"] <= 0.02


def test_groups_and_their_times(exhibits):
    (row,) = cells(exhibits["mad17.table1"], group=group(exhibits, "strong"))
    assert (row["runs"], row["processes"], row["unique_files"]) == (110, 4096, 5)
    assert row["files_monitored"] == 3
    assert row["monitored_runs"] <= 110
    name = group(exhibits, "none")
    mean = estimate(exhibits["mad17.table2"], f"D_D_mean[{name}]")
    assert mean.value == pytest.approx(27.6 * 60, rel=0.02)
    assert mean.low < mean.value < mean.high
    assert estimate(exhibits["mad17.table2"], f"D_J_sd[{name}]").value == pytest.approx(32, rel=0.4)


def test_monitored_files_are_the_share_that_was_planted(exhibits):
    name = group(exhibits, "strong")
    for what in ("files", "bytes"):
        assert estimate(exhibits["mad17.monitored"], f"{what}_monitored_ratio[{name}]").value == pytest.approx(0.6)
    assert f"{name}: 60% of the files and 60% of the bytes" in words(exhibits["mad17.monitored"])


def test_curve_and_density_rise_with_load(data):
    one = association_data(replace(data, facility=site()), PARAMS | {"group": "strong"})
    found = {e.id: e for e in curve_exhibits(one)}
    assert estimate(found["mad17.fig6"], "rise_read").value > 0.5
    density = found["mad17.fig7"]
    for way in ("read", "write"):
        given = [estimate(density, f"D_D_given_{part}_volume_{way}") for part in ("low", "median", "high")]
        assert given[0].value < given[2].value
        assert all(e.low < e.value < e.high for e in given)
    for chart, symbol in zip(density.charts, ("PsiD_R", "PsiD_W"), strict=True):
        assert chart.title.endswith(symbol)
        assert set(chart.table.column("curve")) == {None, f"median given {symbol}", f"central 90% given {symbol}"}
    narrow, wide = (estimate(density, f"conditional_width_{way}") for way in ("read", "write"))
    assert narrow.high < 1, "the time follows the reads"
    assert wide.value > narrow.value
    assert [chart.kind for chart in density.charts].count("heatmap") == 2, "of the group asked for"
    assert 0 < estimate(found["mad17.fig6"], "explained_read").value < 1


def test_a_group_of_which_nothing_can_be_said_says_its_own_reason():
    def pairing(name, times):
        volumes = np.arange(len(times)) + 0.0
        return Pairing(name, "read", volumes, np.array(times), associate(volumes, np.array(times)), {}, {})

    pairs = [pairing("many", list(np.sin(np.arange(30.0)))), pairing("steady", [7.0] * 30)]
    told = [finding.text for finding in association_findings(pairs, "D_D", "PsiD")]
    assert told[1] == "steady: no estimate (one of the two variables is constant)."


def test_a_wrong_name_of_a_group_is_refused(data):
    params = PARAMS | {"group": "nobody"}
    with pytest.raises(UsageError, match="No unique group"):
        association_data(replace(data, facility=site()), params)
