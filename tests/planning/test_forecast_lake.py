"""`ioweather forecast` through a lake: the windows that went in, what is missing, the command as a person runs it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter
from store_lakes import DAY, series_frame

from asking import forecast
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.tables import RESPONSES
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS
from ioweather.facts.slowdown import all_intervals
from ioweather.lake.lake import Lake, open_lake

DAYS = 6
MINUTES = DAYS * 1440


def swings(n, rho, seed):
    noise = np.random.default_rng(seed).standard_normal(n) * math.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise)


def loads() -> dict[str, np.ndarray]:
    """Bytes per minute of two targets."""
    found = {}
    for seed, metric in enumerate(("read_bytes", "write_bytes")):
        level = np.exp(22 + swings(MINUTES, 0.99, seed))
        found[metric] = np.stack([level, 0.5 * level], axis=1).round()
        found[metric][2000:2030] = np.nan
    return found


def probed() -> np.ndarray:
    """Seconds of an operation every minute."""
    return np.asarray(0.01 * np.exp(0.3 * swings(MINUTES, 0.98, 7)))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = open_lake(tmp_path_factory.mktemp("forecast") / "lake", create=True)
    for metric, values in loads().items():
        lake.append("series", series_frame(values, metric=metric), source="lmt")
    seconds = probed()
    responses = RESPONSES.frame(
        start_ns=DAY + np.arange(MINUTES, dtype=np.int64) * MINUTE_NS + NS, host="h", target="/scratch/p", op="stat",
        request_bytes=0, mode="nocache", duration_ns=np.round(seconds * NS).astype(np.int64), system="scratch",
        status="ok", rows=MINUTES,
    )  # fmt: skip
    lake.append("response_rollups", all_intervals(responses), source="rollup")
    return lake


def course(answer):
    """What was seen, from the table of the picture."""
    chart = answer.exhibits[0].charts[0]
    rows = [row for row in chart.table.rows if row[1] == "seen"]
    return [row[0] for row in rows], np.array([row[2] for row in rows], float)


def test_load_is_the_rate_of_five_minutes_over_all_targets(lake: Lake) -> None:
    answer = forecast(lake, op="write")
    times, seen = course(answer)
    want = loads()["write_bytes"].sum(axis=1).reshape(-1, 5).sum(axis=1) / 300
    np.testing.assert_allclose(seen, want[-72:], rtol=1e-9)
    assert times[-1] == DAY + DAYS * DAY_NS
    both, reads = course(forecast(lake))[1], course(forecast(lake, op="read"))[1]
    np.testing.assert_allclose(both, seen + reads, rtol=1e-9)
    assert answer.coverage[0].present == DAYS * 288 - 6
    assert answer.provenance.table_versions.keys() == {"series"}
    assert any("'now' means the end of the data" in caveat for caveat in answer.caveats)


def test_slowdown_is_the_median_of_a_window_over_the_usual(lake: Lake) -> None:
    answer = forecast(lake, of="slowdown")
    assert answer.headline.startswith("Slowdown of stat on scratch: ")
    seconds = probed()
    want = np.sort(seconds.reshape(-1, 5), axis=1)[:, 2] / np.median(seconds)
    np.testing.assert_allclose(course(answer)[1], want[-72:], rtol=0.03)  # histograms are right to 1%
    assert answer.provenance.table_versions.keys() == {"response_rollups"}


def test_as_of_an_earlier_time_nothing_later_is_known(lake: Lake, tmp_path: Path) -> None:
    at = DAY + 5 * DAY_NS + 3 * HOUR_NS + 2 * MINUTE_NS
    early = open_lake(tmp_path / "early", create=True)
    for metric, values in loads().items():
        early.append("series", series_frame(values[: 5 * 1440 + 180], metric=metric), source="lmt")
    then, only = forecast(lake, at=at), forecast(early)
    assert then.headline == only.headline
    assert then.exhibits[0].tables == only.exhibits[0].tables
    assert course(then)[0][-1] == DAY + 5 * DAY_NS + 3 * HOUR_NS


def test_what_is_not_there_is_said(lake: Lake, tmp_path: Path) -> None:
    empty = open_lake(tmp_path / "empty", create=True)
    with pytest.raises(DataUnavailable, match=r"No probe response times.*Ingest server statistics"):
        forecast(empty)
    with pytest.raises(DataUnavailable, match="No server load"):
        forecast(empty, of="load")
    with pytest.raises(DataUnavailable, match=r"No load data for home.*scratch"):
        forecast(lake, filesystem="home")
    with pytest.raises(DataUnavailable, match=r"No probe has measured home.*scratch"):
        forecast(lake, filesystem="home", of="slowdown")
    with pytest.raises(UsageError, match="Load forecasts do not support operation 'stat'"):
        forecast(lake, op="stat", of="load")
    with pytest.raises(UsageError, match=r"timed 'create'.*stat"):
        forecast(lake, op="create", of="slowdown")
    for wrong in ({"window": MINUTE_NS}, {"horizon": 3 * HOUR_NS}, {"duration": 2 * DAY_NS}):
        with pytest.raises(UsageError):
            forecast(lake, **wrong)
    with pytest.raises(DataUnavailable):
        forecast(lake, at=DAY - DAY_NS)
