"""Fifty days of one file system by the minute, with a planted change of the mix, a gap and maintenance."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np

from ioweather.core.facility import Facility, ProjectRule, _FileSystem, _Window
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Exhibit, to_jsonable
from ioweather.core.units import DAY_NS, MINUTE_NS, datetime_to_ns
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study

START = datetime_to_ns(dt.datetime(2010, 1, 23, tzinfo=dt.UTC))
DAYS = 50
CHANGE = 33
PARAMS = {"filesystem": "intrepid", "component_kind": "device", "resolution": MINUTE_NS}


def traffic(read: np.ndarray, write: np.ndarray, coverage: np.ndarray | None = None) -> Frame:
    steps = len(read)
    kept = ~np.isnan(read)
    times = START + np.arange(steps, dtype=np.int64) * MINUTE_NS
    covered = np.ones(steps) if coverage is None else coverage
    return Frame(
        {
            "start_ns": np.repeat(times[kept], 2),
            "metric": Text(np.tile(np.array([0, 1], np.int32), int(kept.sum())), ("read_bytes", "write_bytes")),
            "value": np.stack([read[kept], write[kept]], axis=1).ravel(),
            "coverage": np.repeat(covered[kept], 2),
        }
    )


def planted(change: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Bytes read and written in every minute: four times as much read before CHANGE, three days and a half missing."""
    rng = np.random.default_rng(2010)
    steps = DAYS * 1440
    write = rng.lognormal(23, 1.0, steps)
    read = rng.lognormal(23, 1.0, steps) * np.where(np.arange(steps) < CHANGE * 1440, change, 1.0)
    read[9 * 1440 + 800 : 13 * 1440] = np.nan
    write[np.isnan(read)] = np.nan
    return read, write


FACILITY = Facility(
    zone="UTC",
    filesystems=(_FileSystem("intrepid", devices=("*",), peak_bytes_per_s=78 * 2**30),),
    projects=(ProjectRule("EarthScience", account="earth"),),
    maintenance=(
        _Window(START + 20 * DAY_NS, START + 20 * DAY_NS + 600 * MINUTE_NS, "spring clean"),
        _Window(START - 20 * DAY_NS, START - 19 * DAY_NS, "long ago"),
    ),
)


def run(study: str, data: PlantedSource, facility: Facility = FACILITY, **params: Any) -> dict[str, Exhibit]:
    made = {e.id: e for e in run_study(STUDIES[study], data, facility, {**PARAMS, **params})}
    for exhibit in made.values():
        # Results are stored as JSON and must stay small.
        assert len(json.dumps(to_jsonable(exhibit), allow_nan=False)) < 400_000
    return made


def data_of(frame: Frame, **frames: Frame) -> PlantedSource:
    return PlantedSource({"traffic": frame, **frames}, {}, (START, START + DAYS * DAY_NS), MINUTE_NS)


def value(exhibit: Exhibit, name: str) -> Any:
    return next(e for e in exhibit.estimates if e.name == name)
