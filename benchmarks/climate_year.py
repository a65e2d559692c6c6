"""A synthetic year of a large storage system (525,600 minutes of 248 OSTs, 248 OSSes and an MDS), with planted truth.

Run it to see how long all exhibits of pat19 take and whether what was planted is found again:

    OPENBLAS_NUM_THREADS=1 python benchmarks/climate_year.py            # in memory: the studies alone
    OPENBLAS_NUM_THREADS=1 python benchmarks/climate_year.py --lake     # through a sealed lake, reading included
    python benchmarks/climate_year.py --lake --days 30 --targets 48     # shorter

Through a lake they are made three times: with nothing kept, with everything computed and kept, and of what sealed days
left. The last is what a question about a sealed year costs.

The peer is the plain way to the same numbers (NumPy, one target and one minute at a time) on a few days, scaled up.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.frames import Floats, Frame, Matrix, Text
from ioweather.core.results import Exhibit
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import DAY_NS, GIB, MINUTE_NS, datetime_to_ns
from ioweather.facts.system_grid import local_clock
from ioweather.lake.database import connection
from ioweather.lake.inventory import write_seal
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.catalogue import STUDIES

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # rows in place of a lake
from planted_source import PlantedSource, run_study

TARGETS = 248
ZONE = "America/Los_Angeles"
START_NS = datetime_to_ns(dt.datetime(2018, 1, 1, 8, tzinfo=dt.UTC))
MEAN_BYTES = {"read_bytes": 853 * GIB, "write_bytes": 487 * GIB}  # per minute, whole system
IMBALANCE = {"read_bytes": 2.5, "write_bytes": 1.15}
SPIKE_HOUR, SPIKE = 2, 1.6
NOT_CLOSED = 0.2
CPU_MEAN = 0.015
IDLE_RATIO = 0.1
PEAK, LIMIT = 700e9, 20e9
FACILITY = Facility(
    name="planted", zone=ZONE,
    filesystems=(
        _FileSystem("scratch", lustre=("scratch",), peak_bytes_per_s=PEAK, component_limit_bytes_per_s=LIMIT),
    ),
)  # fmt: skip
FACILITY_TOML = f"""\
name = "planted"
zone = "{ZONE}"
[filesystem.scratch]
lustre = ["scratch"]
peak_bytes_per_s = {PEAK}
component_limit_bytes_per_s = {LIMIT}
"""
PARAMS = {
    "filesystem": "scratch", "component_kind": "ost", "metadata_kind": "mds", "burst_buffer": None,
    "burst_buffer_kind": "ost", "resolution": MINUTE_NS, "intervals": True,
}  # fmt: skip


def _autoregressive(rng: np.random.Generator, rows: int, columns: int, rho: float) -> Floats:
    """Standard normal in every cell, correlated rho^k at lag k down a column."""
    noise = rng.standard_normal((rows, columns))
    noise[1:] *= math.sqrt(1 - rho * rho)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise, axis=0))


def _weights(metric: str) -> Floats:
    """Share of each target: from the least to the most, in another order for reads and writes."""
    weights = np.linspace(1.0, IMBALANCE[metric], TARGETS)
    order = np.random.default_rng(1 if metric == "read_bytes" else 2).permutation(TARGETS)
    return np.asarray((weights / weights.sum())[order])


def _calendar(metric: str, times_ns: NDArray[np.int64]) -> Floats:
    """Spike at night for both; evenings and Sundays of writes vary from day to day, with an unchanged mean."""
    local_day, hour, weekday = local_clock(times_ns, ZoneInfo(ZONE))
    factor = np.where(hour == SPIKE_HOUR, SPIKE, 1.0)
    if metric == "write_bytes":
        day = local_day - local_day[0]
        for chosen, sigma, seed in ((hour >= 18, 0.5, 11), (weekday == 6, 0.5, 12)):
            rng = np.random.default_rng((seed, int(local_day[0])))
            daily = np.exp(sigma * rng.standard_normal(int(day[-1]) + 1) - sigma**2 / 2)
            factor = factor * np.where(chosen, daily[day], 1.0)
    return np.asarray(factor / (1 + (SPIKE - 1) / 24))


def traffic_block(metric: str, first_day: int, days: int) -> Floats:
    """Bytes per minute and target of some days, the same for the same arguments."""
    rng = np.random.default_rng((7, first_day, 0 if metric == "read_bytes" else 1))
    rows = days * 1440
    times = START_NS + (first_day * 1440 + np.arange(rows, dtype=np.int64)) * MINUTE_NS
    reads = metric == "read_bytes"
    # Reads: slow swings of each target. Writes: bursts of a minute here and there.
    own_sigma, own_rho = (1.0, 0.95) if reads else (1.2, 0.2)
    shared_sigma, shared_rho = (0.8, 0.9) if reads else (1.0, 0.8)
    own = np.exp(own_sigma * _autoregressive(rng, rows, TARGETS, own_rho) - own_sigma**2 / 2)
    shared = np.exp(shared_sigma * _autoregressive(rng, rows, 1, shared_rho) - shared_sigma**2 / 2)
    idle = rng.random((rows, TARGETS), dtype=np.float32) < IDLE_RATIO
    own *= shared * _calendar(metric, times)[:, None] * (MEAN_BYTES[metric] / (1 - IDLE_RATIO)) * _weights(metric)
    own[idle] = 0.0
    return own


def cpu_block(first_day: int, days: int) -> Floats:
    rng = np.random.default_rng((9, first_day))
    swing = np.exp(1.2 * _autoregressive(rng, days * 1440, TARGETS, 0.9) - 0.72)
    return np.asarray(np.minimum(CPU_MEAN * swing, 1.0))


def metadata(days: int) -> dict[str, Floats]:
    rng = np.random.default_rng(21)
    swing = np.exp(1.1 * _autoregressive(rng, days * 1440, 1, 0.85)[:, 0] - 0.605)
    opens = 586e3 * swing
    return {"open_ops": opens, "close_ops": opens * (1 - NOT_CLOSED) * rng.uniform(0.9, 1.1, len(opens))}


@dataclass
class PlantedMatrix:
    """Made block by block when asked for; `made_seconds` is what that cost, to be taken off."""

    metric: str
    days: int
    gap_days: tuple[int, ...] = ()
    made_seconds: float = 0.0
    start_ns: int = START_NS
    step_ns: int = MINUTE_NS
    components: tuple[str, ...] = field(default_factory=lambda: tuple(f"OST{i:04x}" for i in range(TARGETS)))

    @property
    def steps(self) -> int:
        return self.days * 1440

    def stretch(self, first: int, last: int) -> Matrix:
        begun = time.thread_time()
        make = cpu_block if self.metric == "cpu_ratio" else lambda a, b: traffic_block(self.metric, a, b)
        # Days come one by one, so that a stretch of any length holds the same numbers.
        day, end = first // 1440, -(-last // 1440)
        values = np.concatenate([make(each, 1) for each in range(day, end)])
        for gap in self.gap_days:
            if day <= gap < end:
                values[(gap - day) * 1440 : (gap - day + 1) * 1440] = np.nan
        values = values[first - day * 1440 : last - day * 1440]
        self.made_seconds += time.thread_time() - begun
        covered = np.broadcast_to(np.float32(1.0), values.shape)
        return Matrix(self.metric, self.start_ns + first * MINUTE_NS, MINUTE_NS, self.components, values, covered)

    def identity(self, first: int, last: int) -> str | None:
        return None


def metadata_frame(days: int) -> Frame:
    series = metadata(days)
    times = START_NS + np.arange(days * 1440, dtype=np.int64) * MINUTE_NS
    return Frame(
        {
            "start_ns": np.repeat(times, 2),
            "metric": Text(np.tile(np.array([0, 1], np.int32), len(times)), tuple(series)),
            "value": np.stack(list(series.values()), axis=1).ravel(),
            "coverage": np.ones(2 * len(times)),
        }
    )


def run_in_memory(days: int) -> tuple[dict[str, Exhibit], float]:
    """All exhibits, and the seconds without those that making the data took."""
    gaps = (100,) if days > 100 else ()
    made = {
        metric: PlantedMatrix(metric, days, gaps) for metric in ("read_bytes", "write_bytes", "cpu_ratio")
    }  # fmt: skip
    period_ns = START_NS, START_NS + days * DAY_NS
    data = PlantedSource({"metadata": metadata_frame(days)}, made, period_ns, MINUTE_NS)

    def own_seconds() -> float:
        return time.process_time() - sum(matrix.made_seconds for matrix in made.values())

    exhibits: dict[str, Exhibit] = {}
    begun = before = own_seconds()
    for exhibit in run_study(STUDIES["climate"], data, FACILITY, PARAMS):
        now = own_seconds()
        print(f"  {exhibit.id:20s} {now - before:7.2f} s")
        exhibits[exhibit.id] = exhibit
        before = now
    return exhibits, own_seconds() - begun


def value(exhibits: dict[str, Exhibit], exhibit: str, name: str) -> float:
    return next(e.value for e in exhibits[exhibit].estimates if e.name == name) or math.nan


def check(exhibits: dict[str, Exhibit]) -> None:
    """What was planted, beside what was found."""
    rows = [
        ("reads over writes", 853 / 487, value(exhibits, "pat19.fig3", "read_over_written"), 0.05),
        ("mean read rate, GiB/min", 853, value(exhibits, "pat19.fig4", "mean_rate_read") * 60 / GIB, 0.05),
        ("mean write rate, GiB/min", 487, value(exhibits, "pat19.fig4", "mean_rate_write") * 60 / GIB, 0.1),
        ("read max/min of OSTs", IMBALANCE["read_bytes"], value(exhibits, "pat19.fig10", "max_over_min_read"), 0.1),
        ("write max/min of OSTs", IMBALANCE["write_bytes"], value(exhibits, "pat19.fig10", "max_over_min_write"), 0.1),
        ("share not closed", NOT_CLOSED, value(exhibits, "pat19.fig13", "not_closed_ratio"), 0.02),
        ("mean CPU load", CPU_MEAN, value(exhibits, "pat19.fig15", "mean_load_all"), 0.05),
    ]
    for what, planted, found, tolerance in rows:
        verdict = "ok" if abs(found / planted - 1) <= tolerance else "NOT FOUND"
        print(f"  {what:28s} planted {planted:9.3f}  found {found:9.3f}  {verdict}")
    hours = next(t for t in exhibits["pat19.fig5"].tables if t.name == "hours")
    top = max(hours.rows[:24], key=lambda row: row[2] or 0.0)
    print(f"  {'busiest hour of reads':28s} planted {SPIKE_HOUR:9d}  found {int(str(top[0])):9d}")


def peer_seconds(days: int) -> float:
    """The plain way on one day (corrcoef per target and lag, clusters of a tenth of its minutes), scaled."""
    blocks = {metric: traffic_block(metric, 0, 1) for metric in MEAN_BYTES}
    begun = time.process_time()
    for x, y in (("read_bytes", "read_bytes"), ("write_bytes", "write_bytes"), ("read_bytes", "write_bytes")):
        for column in range(TARGETS):
            a, b = blocks[x][:, column], blocks[y][:, column]
            for lag in range(6):
                np.corrcoef(a[: len(a) - lag], b[lag:])
    correlated = time.process_time() - begun
    begun = time.process_time()
    for values in blocks.values():
        for row in values[:144]:
            smallest = 0.0
            sizes: list[int] = []
            for activity in sorted(row[row > 0].tolist()):
                if sizes and activity < smallest * 1.05:
                    sizes[-1] += 1
                else:
                    sizes.append(1)
                    smallest = activity
    clustered = 10 * (time.process_time() - begun)
    return (correlated + clustered) * days


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--targets", type=int, default=TARGETS)
    parser.add_argument("--lake", action="store_true", help="write a sealed lake first and read from it")
    options = parser.parse_args()
    use_targets(options.targets)
    if options.lake:
        with tempfile.TemporaryDirectory() as folder:
            run_through_lake(Path(folder) / "lake", options.days, options.targets)
        return
    exhibits, seconds = run_in_memory(options.days)
    check(exhibits)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    plain = peer_seconds(options.days)
    print(f"{options.days} days: {seconds:.1f} s of CPU, {peak:.2f} GiB at most")
    print(f"the plain way to correlations and clusters alone: {plain:.0f} s, {plain / seconds:.1f} times as long")


def _rows(metric: str, kind: str, first_minute: int, values: Floats) -> Frame:
    """A piece of a matrix as rows of `series`."""
    steps, components = values.shape
    names = tuple(f"{kind.upper()}{i:04x}" for i in range(components))
    times = START_NS + (first_minute + np.arange(steps, dtype=np.int64)) * MINUTE_NS
    return TABLES["series"].frame(
        rows=values.size, start_ns=np.repeat(times, components), interval_ns=MINUTE_NS, system="scratch",
        component_kind=kind, component=Text(np.tile(np.arange(components, dtype=np.int32), steps), names),
        metric=metric, value=values.ravel(), quality=0,
    )  # fmt: skip


def use_targets(count: int) -> None:
    global TARGETS
    TARGETS = count


def build_lake(path: Path, days: int, targets: int = TARGETS) -> None:
    """The planted year, sealed. Rows are written in the order of sealed ones, each UTC day once."""
    use_targets(targets)
    lake = open_lake(path, create=True)
    (path / "facility.toml").write_text(FACILITY_TOML, encoding="utf-8")
    operations = {metric: series[:, None] for metric, series in metadata(days).items()}
    late = START_NS % DAY_NS // MINUTE_NS  # minutes of a UTC day that are of the local day before
    kinds = {"close_ops": "mds", "open_ops": "mds", "cpu_ratio": "oss", "read_bytes": "ost", "write_bytes": "ost"}
    before: dict[str, Floats] = {}
    for day in range(days + 1):
        made: dict[str, Floats] = {}
        if day < days:
            made = {metric: series[day * 1440 : (day + 1) * 1440] for metric, series in operations.items()}
            made |= {metric: traffic_block(metric, day, 1) for metric in MEAN_BYTES} | {"cpu_ratio": cpu_block(day, 1)}
        parts = []
        for metric, kind in kinds.items():
            pieces = [before[metric][1440 - late :]] if before else []
            pieces += [made[metric][: 1440 - late]] if made else []
            parts.append(_rows(metric, kind, day * 1440 - (late if before else 0), np.concatenate(pieces)))
        lake.append("series", concat(parts), source="lmt")
        before = made
        print(f"\r  day {day + 1} of {days}", end="", flush=True)
    print()
    pinned = lake.pinned()["series"]
    with connection() as con:
        for utc, files in pinned.days().items():
            write_seal(con, path, pinned._replace(uris=tuple(files)), utc)


def timed(path: Path, *, use_cache: bool, ids: Sequence[str] = ()) -> tuple[list[Exhibit], float]:
    """Exhibits, all if none is named, and processor seconds; what was kept of them before is not used, what days left
    is."""
    shutil.rmtree(path / "exhibits", ignore_errors=True)
    begun = time.process_time()
    made = make_exhibits(open_lake(path), ids or STUDIES["climate"].exhibits, use_cache=use_cache)
    return made, time.process_time() - begun


def run_through_lake(path: Path, days: int, targets: int) -> None:
    """The lake is written by another process, whose memory does not count here; reading and all exhibits are timed."""
    begun = time.perf_counter()
    builder = multiprocessing.get_context("spawn").Process(target=build_lake, args=(path, days, targets))
    builder.start()
    builder.join()
    print(f"  lake of {days} days written and sealed in {time.perf_counter() - begun:.0f} s (not counted)")
    made, plain = timed(path, use_cache=False)
    _, first = timed(path, use_cache=True)
    again, kept = timed(path, use_cache=True)
    check({exhibit.id: exhibit for exhibit in made})
    alone = {exhibit.id: timed(path, use_cache=True, ids=[exhibit.id]) for exhibit in again}
    same = all(
        a.estimates == b.estimates == alone[a.id][0][0].estimates and b.findings == alone[a.id][0][0].findings
        for a, b in zip(made, again, strict=True)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    records = sum(file.stat().st_size for file in (path / "seals").iterdir()) / 2**20
    print(f"{days} days of {targets} targets through the lake, {len(made)} exhibits, {peak:.2f} GiB at most")
    print(
        f"  processor seconds: {plain:.2f} with nothing kept, {first:.2f} the first time, {kept:.2f} of what days left"
    )
    print(f"  one alone: {', '.join(f'{name} {seconds:.2f}' for name, (_, seconds) in alone.items())}")
    print(f"  {plain / kept:.1f} times less; {records:.1f} MiB of seals; numbers {'equal' if same else 'NOT EQUAL'}")


if __name__ == "__main__":
    main()
