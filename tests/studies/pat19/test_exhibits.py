"""All exhibits of a planted climate, and the boxed observations."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ioweather.core.facility import Facility
from ioweather.core.frames import Matrix
from ioweather.core.papers.claim_tests import _Claim, claims
from ioweather.core.results import Estimate, Exhibit, to_jsonable
from ioweather.core.units import MINUTE_NS
from ioweather.studies.pat19.climate import observations
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study

Exhibits = dict[str, Exhibit]


def test_every_interval_holds_its_value(climate_exhibits: Exhibits) -> None:
    for exhibit in climate_exhibits.values():
        for e in exhibit.estimates:
            assert e.method, (exhibit.id, e.name)
            if e.low is not None and e.value is not None:
                assert e.level == (0.98 if e.name == "spike_over_usual_peak" else 0.9)
                slack = 1e-9 * max(1.0, abs(e.value))
                assert e.low - slack <= e.value <= e.high + slack, (exhibit.id, e.name)


def test_volume_equals_the_arrays(planted_climate: Any, climate_exhibits: Exhibits, estimate_of: Any) -> None:
    read, write = (planted_climate.values[m].sum(axis=1) for m in ("read_bytes", "write_bytes"))
    three, four = climate_exhibits["pat19.fig3"], climate_exhibits["pat19.fig4"]
    assert estimate_of(three, "read_over_written").value == pytest.approx(read.sum() / write.sum())
    assert estimate_of(three, "total_read").value == pytest.approx(read.sum())
    # Of each series its last point.
    drawn = dict(zip(three.charts[0].table.column("series"), three.charts[0].table.column("value"), strict=True))
    assert drawn["burst buffer write"] == pytest.approx(estimate_of(three, "burst_buffer_write").value)
    with_it = estimate_of(three, "read_over_written_with_burst_buffer").value
    assert with_it == pytest.approx((read.sum() + 1e11 * len(read)) / (write.sum() + 1e12 * len(read)))
    for way, series in (("read", read), ("write", write)):
        assert estimate_of(four, f"mean_rate_{way}").value == pytest.approx(series.mean() / 300)
        assert estimate_of(four, f"variation_{way}").value == pytest.approx(series.std() / series.mean())
        below = estimate_of(four, f"below_mean_ratio_{way}").value
        assert below == pytest.approx(np.mean(series < series.mean()))
    assert three.charts[0].table.rows[499][2] == pytest.approx(read.sum())


def test_system_correlations_equal_corrcoef(planted_climate: Any, climate_exhibits: Exhibits, estimate_of: Any) -> None:
    read = planted_climate.values["read_bytes"].sum(axis=1)
    write = planted_climate.values["write_bytes"].sum(axis=1)
    nine = climate_exhibits["pat19.fig9"]
    for word, window in (("5 min", 1), ("25 min", 5)):
        x, y = (series[: len(read) // window * window].reshape(-1, window).sum(axis=1) for series in (read, write))
        assert estimate_of(nine, f"auto_read[{word}]").value == pytest.approx(np.corrcoef(x[:-1], x[1:])[0, 1])
        rows = [r for r in nine.charts[0].table.rows if r[0] == "read then write" and r[1] == word]
        want = [np.corrcoef(x[: len(x) - k], y[k:])[0, 1] for k in range(6)]
        assert [r[3] for r in rows] == pytest.approx(want)


def test_observations_follow_from_the_claims(climate_exhibits: Exhibits) -> None:
    summary, claims = climate_exhibits["pat19.observations"].tables
    assert [row[0] for row in summary.rows] == list(range(1, 9))
    for number, _, _, verdict, _ in summary.rows:
        here = [row[2] for row in claims.rows if row[0] == number]
        if "contradicts" in here:
            assert verdict == "false"
        elif all(word == "agrees" for word in here):
            assert verdict == "true"
        else:
            assert verdict == "undecided"
    # Planted: smooth reads and white writes on every target; quiet processors and bursty, smooth metadata.
    assert [row[3] for row in summary.rows][6:] == ["true", "true"]
    advice = [f.text for f in climate_exhibits["pat19.observations"].findings[8:]]
    assert any("hours 02" in text for text in advice)
    assert any("Move often-read files off OST000b" in text for text in advice)
    assert any("predict the system's reads" in text for text in advice)


PARAMS = {"filesystem": "s", "component_kind": "ost"}


def tiny(values: np.ndarray) -> PlantedSource:
    names = tuple(map(str, range(values.shape[1])))
    both = {
        m: Matrix(m, 0, MINUTE_NS, names, values, np.ones(values.shape, np.float32))
        for m in ("read_bytes", "write_bytes")
    }
    return PlantedSource({}, both, (0, len(values) * MINUTE_NS), MINUTE_NS)


def test_two_days_far_apart_are_two_days() -> None:
    """Most of the period is a gap: nothing breaks, and what is empty is not taken for data."""
    values = np.full((40 * 1440, 3), np.nan)
    rng = np.random.default_rng(8)
    values[:700] = rng.lognormal(10, 1, (700, 3))
    values[-5:] = rng.lognormal(10, 1, (5, 3))
    made = {e.id: e for e in run_study(STUDIES["climate"], tiny(values), Facility(), PARAMS)}
    json.dumps(to_jsonable(list(made.values())), allow_nan=False)
    assert all(e.low is None for e in made["pat19.fig4"].estimates)
    assert made["pat19.fig4"].coverage[0].present == 705


def test_idle_missing_and_constant_systems() -> None:
    empty = list(run_study(STUDIES["climate"], tiny(np.full((50, 3), np.nan)), Facility(), PARAMS))
    assert all(exhibit.empty_because for exhibit in empty)
    for level in (0.0, 5e9):
        made = {e.id: e for e in run_study(STUDIES["climate"], tiny(np.full((3000, 3), level)), Facility(), PARAMS)}
        json.dumps(to_jsonable(list(made.values())), allow_nan=False)
        assert any("no low phase" in f.text for f in made["pat19.fig8"].findings)
    nothing = list(run_study(STUDIES["climate"], PlantedSource(), Facility(), PARAMS))
    assert all(exhibit.empty_because for exhibit in nothing)


BOXED = [claim for claim in claims("pat19") if claim.observation]


def exhibit(claim: _Claim, holds: bool | None) -> Exhibit:
    """An exhibit that supports, refutes or leaves open one claim."""
    side = 1 if (claim.above is not None) == bool(holds) else -1
    value = claim.number + side * (3.0 if claim.ours and claim.unit else 0.1)
    low, high = (value - 0.05, value + 0.05) if holds is not None else (claim.number - 1, claim.number + 1)
    estimates = [Estimate(claim.estimate, value, "", low, high, 0.9, 10, "bootstrap")]
    if claim.scale:
        estimates.append(Estimate(claim.scale, claim.scale_of, "count"))
    return Exhibit(claim.exhibit, "", estimates=tuple(estimates))


def verdicts(made: list[Exhibit]) -> list[object]:
    """From the claims' exhibits, those of one id as one."""
    by_id: dict[str, tuple[Estimate, ...]] = {}
    for each in made:
        by_id[each.id] = (*by_id.get(each.id, ()), *each.estimates)
    joined = [Exhibit(name, estimates=estimates) for name, estimates in by_id.items()]
    return [row[3] for row in observations(joined, [], ()).tables[0].rows]


@pytest.mark.parametrize("number", range(1, 9))
def test_one_refuted_claim_makes_it_false_and_one_open_claim_undecided(number: int) -> None:
    first = next(claim for claim in BOXED if claim.observation == number)
    refuted = verdicts([exhibit(claim, claim is not first) for claim in BOXED])
    assert refuted == ["false" if i == number else "true" for i in range(1, 9)]
    opened = verdicts([exhibit(claim, None if claim is first else True) for claim in BOXED])
    assert opened == ["undecided" if i == number else "true" for i in range(1, 9)]
