"""One realistic chart of every kind, and their drawings, made once: a conversion takes a tenth of a second."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import pairwise

import pytest

from ioweather.core.results import Chart, Reference, ResultColumn, ResultTable
from ioweather.core.units import NS

START_NS = 1_756_684_800 * NS  # 2025-09-01


def table(columns: str, rows: list[tuple[object, ...]]) -> ResultTable:
    """Columns written as 'name unit, name unit'."""
    parts = [part.split() for part in columns.split(",")]
    made = tuple(ResultColumn(p[0], "", p[1] if len(p) > 1 else "") for p in parts)
    return ResultTable("t", made, tuple(rows))  # type: ignore[arg-type]


def _timeline(random_: random.Random) -> Chart:
    rows: list[tuple[object, ...]] = []
    for series in ("read", "write"):
        for i in range(240):
            value = None if 100 <= i < 120 else random_.lognormvariate(22, 0.6)
            rows.append((START_NS + i * 600 * NS, value, series))
    window = Reference("x", START_NS + 60_000.0 * NS, "maintenance", START_NS + 72_000.0 * NS)
    return Chart(
        "timeline", table("time time_ns,rate bytes_per_s,direction text", rows),
        {"x": "time", "y": "rate", "series": "direction"}, "Throughput",
        references=(window, Reference("y", 2e10, "peak")),
    )  # fmt: skip


def make_charts() -> dict[str, Chart]:
    random_ = random.Random(5)
    quantiles = ("q05", "q25", "q50", "q75", "q95")
    projects = ("Climate", "Combustion <physics> & more", "Energy")
    boxes = [(p, *sorted(random_.lognormvariate(0, 1.5) for _ in quantiles)) for p in projects]
    edges = (0, 100, 1024, 10240, 2**20, None)
    bins = [(a, b, random_.random(), s) for s in ("read", "write") for a, b in pairwise(edges)]
    points = [(random_.lognormvariate(20, 1), random_.lognormvariate(3, 1), random_.choice("AB")) for _ in range(80)]
    lags = [(n, 3 / n + n / 50, 2 / n + n / 60, 4 / n + n / 40) for n in range(1, 33)]
    shares = [(v, (i + 1) / 300) for i, v in enumerate(sorted(random_.lognormvariate(0, 1) for _ in range(300)))]
    hours = [(h, day, 5e9 * (1 + math.sin(h))) for h in range(24) for day in ("Mon", "Tue", "Wed")]
    names = ("D_D", "D_U_M", "Psi_R")
    cells = [(a, b, None if (a, b) == names[:2] else random_.uniform(-1, 1)) for a in names for b in names]
    return {
        "band": Chart("band", table("n count,t seconds,low seconds,high seconds", lags),
                      {"x": "n", "y": "t", "low": "low", "high": "high"}, "Time by width", scales={"x": "log"}),
        "bars": Chart("bars", table("project text,volume bytes", [(p, 1e12 * (i + 1)) for i, p in enumerate(projects)]),
                      {"x": "project", "y": "volume"}, "Volume"),
        "box": Chart("box", table("project text," + ",".join(f"{q} mib_per_s_per_node" for q in quantiles), boxes),
                     {"x": "project", **{q: q for q in quantiles}}, "Rates", scales={"y": "log"}),
        "cdf": Chart("cdf", table("time seconds,share ratio", shares), {"x": "time", "y": "share"}, "Response time",
                     references=(Reference("x", 2.0, "two seconds"),)),
        "heatmap": Chart("heatmap", table("hour count,day text,rate bytes_per_s", hours),
                         {"x": "hour", "y": "day", "value": "rate"}, "Busy hours"),
        "histogram": Chart("histogram", table("low bytes,high bytes,share ratio,direction text", bins),
                           {"low": "low", "high": "high", "y": "share", "series": "direction"}, "Access sizes"),
        "matrix": Chart("matrix", table("a text,b text,r", cells), {"x": "a", "y": "b", "value": "r"}, "Correlation"),
        "scatter": Chart("scatter", table("volume bytes,time seconds,group text", points),
                         {"x": "volume", "y": "time", "series": "group"}, "Jobs", scales={"x": "log", "y": "log"}),
        "timeline": _timeline(random_),
    }  # fmt: skip


@pytest.fixture(scope="session")
def charts() -> Mapping[str, Chart]:
    return make_charts()


@pytest.fixture(scope="session")
def drawings(charts: Mapping[str, Chart]) -> Mapping[str, str]:
    """SVG by kind."""
    from ioweather.ui.charts.render import draw, spec

    return {kind: draw(spec(chart)).decode() for kind, chart in charts.items()}
