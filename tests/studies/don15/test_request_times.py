"""Samples, histograms, moments and single fits of planted responses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.core.frames import Frame
from ioweather.core.results import Exhibit
from ioweather.core.tables import RESPONSES
from ioweather.core.units import MIB
from ioweather.facts.response_samples import samples_of
from ioweather.studies.don15 import RESPONSE_TIMES as STUDY
from judging import stands
from planted_responses import FACILITY, SIZES, data_of, params_of, rows
from planted_source import run_study


@pytest.fixture(scope="module")
def exhibits() -> dict[str, Exhibit]:
    frames = [
        rows(size, 400, op=op, mode=mode)
        for size in SIZES[:2]
        for op in ("read", "write")
        for mode in ("cache", "nocache")
    ]
    failed = rows(MIB, 30).with_columns(status=RESPONSES.frame(_failed(30))["status"])
    data = data_of(*frames, failed)
    return {exhibit.id: exhibit for exhibit in run_study(STUDY, data, FACILITY, params_of(STUDY, request_size=4 * MIB))}


def _failed(n: int) -> dict[str, object]:
    return {
        "start_ns": np.arange(n), "host": "h", "target": "t", "op": "read", "request_bytes": 1, "mode": "cache",
        "system": "s", "status": "error",
    }  # fmt: skip


def estimate(exhibit: Exhibit, name: str) -> float | None:
    return next(e.value for e in exhibit.estimates if e.name == name)


def test_moments_equal_scipy(exhibits: dict[str, Exhibit]) -> None:
    fig3 = exhibits["don15.fig3"]
    frame = rows(4 * MIB, 400)
    seconds = np.asarray(frame.array("duration_ns")) / 1e9
    row = next(row for row in fig3.tables[0].rows if row[0] == "scratch-nocache read 4 MiB")
    assert row[2] == pytest.approx(stats.skew(seconds))
    assert row[3] == pytest.approx(stats.kurtosis(seconds, fisher=False))
    # Jarque-Bera with the exact moments of so many independent values; neighbours are alike by chance.
    n = len(seconds)
    by_skewness = row[2] ** 2 / 6 * (n + 1) * (n + 3) / (n - 2)
    by_kurtosis = (
        (row[3] - 3 * (n - 1) / (n + 1)) ** 2 / 24 * (n + 1) ** 2 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3))
    )
    assert row[5] == pytest.approx(by_skewness + by_kurtosis, rel=0.01)
    assert row[5] == pytest.approx(stats.jarque_bera(seconds).statistic, rel=0.1)
    marks = {row[0]: (row[2], row[3]) for row in fig3.charts[0].table.rows[-2:]}
    assert marks == {"Normal": (0.0, 3.0), "Uniform": (0.0, 1.8)}
    found = {e.name: e for e in fig3.estimates}
    assert found["not_normal_ratio"].value == found["right_skewed_ratio"].value == 1.0
    # Four groups of series decide nothing, however alike their eight sizes are.
    assert stands(fig3, "not_normal") == "undecided"


def test_no_single_family_fits(exhibits: dict[str, Exhibit]) -> None:
    fits = exhibits["don15.singlefits"]
    assert len(fits.tables[0].rows) == 8 * 8
    assert estimate(fits, "rejected_ratio") == 1.0
    assert estimate(fits, "ks_mean[uniform]") > estimate(fits, "ks_mean[cauchy]")  # type: ignore[operator]


def test_missing_and_zero_durations_are_left_out() -> None:
    frame = rows(MIB, 150)
    duration = np.ma.MaskedArray(np.array(frame.array("duration_ns")), mask=np.arange(150) < 10)
    duration[10:15] = 0
    samples = samples_of(Frame({**frame, "duration_ns": duration}), FACILITY, params_of(STUDY))
    assert samples.samples[0].n == 135
    assert samples.coverage[0].excluded == {"no time, or a time of 0": 15}


def test_constant_times_are_told() -> None:
    frame = rows(MIB, 150)
    same = Frame({**frame, "duration_ns": np.full(150, 10**6)})
    made = {e.id: e for e in run_study(STUDY, data_of(same), FACILITY, params_of(STUDY))}
    assert "all 150 times are equal" in made["don15.singlefits"].caveats[-1]
    assert made["don15.fig3"].tables[0].rows == ()
