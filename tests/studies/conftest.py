"""A small planted climate: three months of a dozen targets with known ratio, spike, imbalance and autocorrelation."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.frames import Frame, Matrix, Text
from ioweather.core.results import Estimate, Exhibit
from ioweather.core.units import DAY_NS, MINUTE_NS, datetime_to_ns
from ioweather.facts.system_grid import local_clock
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study

STEP_NS = 5 * MINUTE_NS
CLIMATE_PARAMS: dict[str, Any] = {
    "filesystem": "scratch", "component_kind": "ost", "metadata_kind": "mds", "burst_buffer": "bb",
    "burst_buffer_kind": "device", "resolution": STEP_NS,
}  # fmt: skip


def smooth(rng: np.random.Generator, rows: int, columns: int, rho: float) -> np.ndarray:
    """Standard normal in every cell, correlated rho^k at lag k."""
    out = rng.standard_normal((rows, columns))
    for row in range(1, rows):
        out[row] = rho * out[row - 1] + np.sqrt(1 - rho * rho) * out[row]
    return out


def rollup_frame(start_ns: int, step_ns: int, series: dict[str, np.ndarray]) -> Frame:
    rows = len(next(iter(series.values())))
    times = start_ns + np.arange(rows, dtype=np.int64) * step_ns
    return Frame(
        {
            "start_ns": np.repeat(times, len(series)),
            "metric": Text(np.tile(np.arange(len(series), dtype=np.int32), rows), tuple(series)),
            "value": np.stack(list(series.values()), axis=1).ravel(),
            "coverage": np.ones(rows * len(series)),
        }
    )


@dataclass
class PlantedClimate:
    days: int = 98
    targets: int = 12
    zone: str = "America/Los_Angeles"
    start_ns: int = datetime_to_ns(dt.datetime(2018, 1, 1, 8, tzinfo=dt.UTC))
    seed: int = 2019
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        per_day = DAY_NS // STEP_NS
        rows = self.days * per_day
        days, hours, weekdays = local_clock(
            self.start_ns + np.arange(rows, dtype=np.int64) * STEP_NS, ZoneInfo(self.zone)
        )
        spike = np.where(hours == 2, 3.0, 1.0)[:, None]
        day = days - days[0]
        evening = np.where(hours >= 18, np.exp(1.0 * rng.standard_normal(day[-1] + 1) - 0.5)[day], 1.0)
        sunday = np.where(weekdays == 6, np.exp(1.2 * rng.standard_normal(day[-1] + 1) - 0.72)[day], 1.0)
        reads = np.exp(smooth(rng, rows, self.targets, 0.9)) * np.linspace(1, 2.5, self.targets)
        writes = np.exp(1.3 * rng.standard_normal((rows, self.targets)) + 1.3 * rng.standard_normal((rows, 1)))
        writes = writes * (evening * sunday)[:, None]
        self.values["read_bytes"] = 1e12 * spike * reads
        self.values["write_bytes"] = 1e12 * spike * writes * np.sum(reads) / np.sum(writes) / 1.75
        self.values["cpu_ratio"] = np.minimum(0.015 * np.exp(smooth(rng, rows, 6, 0.9) - 0.5), 1.0)
        opens = 5e5 * np.exp(1.2 * smooth(rng, rows, 1, 0.9)[:, 0])
        self.values["open_ops"], self.values["close_ops"] = opens, 0.8 * opens

    def matrix(self, metric: str) -> Matrix:
        values = self.values[metric]
        names = tuple(f"{'OSS' if metric == 'cpu_ratio' else 'OST'}{i:04x}" for i in range(values.shape[1]))
        covered = np.broadcast_to(np.float32(1), values.shape)
        return Matrix(metric, self.start_ns, STEP_NS, names, values, covered)

    @property
    def facility(self) -> Facility:
        return Facility(
            zone=self.zone,
            filesystems=(_FileSystem("scratch", peak_bytes_per_s=1e18, component_limit_bytes_per_s=1e18),),
        )

    def data(self) -> PlantedSource:
        burst = {
            "read_bytes": np.full(len(self.values["open_ops"]), 1e11),
            "write_bytes": np.full(len(self.values["open_ops"]), 1e12),
        }
        return PlantedSource(
            {
                "metadata": rollup_frame(
                    self.start_ns, STEP_NS, {m: self.values[m] for m in ("open_ops", "close_ops")}
                ),
                "burst_buffer": rollup_frame(self.start_ns, STEP_NS, burst),
            },
            {metric: self.matrix(metric) for metric in ("read_bytes", "write_bytes", "cpu_ratio")},
            (self.start_ns, self.start_ns + self.days * DAY_NS),
            STEP_NS,
        )

    def run(self, data: PlantedSource | None = None, **params: Any) -> dict[str, Exhibit]:
        made = run_study(STUDIES["climate"], data or self.data(), self.facility, {**CLIMATE_PARAMS, **params})
        return {exhibit.id: exhibit for exhibit in made}


@pytest.fixture(scope="session")
def planted_climate() -> PlantedClimate:
    return PlantedClimate()


@pytest.fixture(scope="session")
def climate_exhibits(planted_climate: PlantedClimate) -> dict[str, Exhibit]:
    return planted_climate.run()


@pytest.fixture(scope="session")
def estimate_of() -> Any:
    """Finds an estimate of an exhibit by name."""

    def find(exhibit: Exhibit, name: str) -> Estimate:
        return next(e for e in exhibit.estimates if e.name == name)

    return find
