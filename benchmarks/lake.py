"""The lake beside plain DuckDB on the same Parquet files: car11.fig7 on 10 million rows, and matrices of sealed days.

python benchmarks/lake.py [--rows 10000000] [--cells 32000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from ioweather.core.frames import Frame, Text
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import grid
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.topics.analyse import make_exhibits

FIRST = 20_000 * DAY_NS


def best(work: Callable[[], object], times: int = 5) -> float:
    """The least of several runs: what the code costs, not what the neighbours do."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def day_frame(day: int, components: int, metric: str, rng: np.random.Generator) -> Frame:
    starts = FIRST + day * DAY_NS + np.arange(1440) * MINUTE_NS
    return TABLES["series"].frame(
        rows=1440 * components,
        start_ns=np.repeat(starts, components),
        interval_ns=MINUTE_NS,
        system="scratch",
        component_kind="ost",
        component=Text(
            np.tile(np.arange(components, dtype=np.int32), 1440), tuple(f"OST{i:04x}" for i in range(components))
        ),
        metric=metric,
        value=rng.gamma(0.5, 1e9, 1440 * components).round(),
        quality=0,
    )


def fill(lake: Lake, rows: int, components: int, metrics: tuple[str, ...]) -> int:
    rng = np.random.default_rng(1)
    days = -(-rows // (1440 * components * len(metrics)))
    for day in range(days):
        for metric in metrics:
            lake.append("series", day_frame(day, components, metric, rng), source="tts")
    return days


PEER = """
WITH minutes AS (SELECT start_ns, sum(value) / 60 AS rate FROM read_parquet([{files}])
    WHERE metric IN ('read_bytes', 'write_bytes') GROUP BY start_ns)
SELECT count(*), avg(rate), max(rate), avg((rate < 0.33 * (SELECT max(rate) FROM minutes))::INT),
    quantile_cont(rate, [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]) FROM minutes
"""


def figure_7(folder: Path, rows: int) -> None:
    lake = open_lake(folder / "fig7", create=True)
    started = time.perf_counter()
    days = fill(lake, rows, 248, ("read_bytes", "write_bytes"))
    print(f"{days * 1440 * 248 * 2:,} rows appended in {time.perf_counter() - started:.1f} s ({days} days)")
    for state in ("as appended", "sealed"):
        if state == "sealed":
            started = time.perf_counter()
            compact(lake, everything=True)
            print(f"sealed in {time.perf_counter() - started:.1f} s")
        files = ", ".join(f"'{uri}'" for uri in lake.snapshot().pinned["series"].uris)
        peer = best(lambda files=files: duckdb.connect().sql(PEER.format(files=files)).fetchall())
        ours = best(lambda: make_exhibits(lake, ["car11.fig7"], params={"intervals": "no"}, use_cache=False))
        print(f"car11.fig7, {state}: {ours:.2f} s; DuckDB alone {peer:.2f} s; ratio {ours / peer:.2f}")


def matrices(folder: Path, cells: int) -> None:
    lake = open_lake(folder / "matrix", create=True)
    days = fill(lake, cells, 248, ("read_bytes",))
    compact(lake, everything=True)

    def ours() -> None:
        with lake.snapshot() as snapshot:
            chosen = snapshot.selection(
                filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=MINUTE_NS
            )
            assert grid.matrix(chosen, "read_bytes").load().values.shape == (days * 1440, 248)

    files = ", ".join(f"'{uri}'" for uri in lake.snapshot().pinned["series"].uris)

    def peer() -> None:
        """What one would write by hand: sort, fetch, reshape."""
        con = duckdb.connect()
        sql = f"SELECT value FROM read_parquet([{files}]) WHERE metric = 'read_bytes' ORDER BY start_ns, component"
        con.sql(sql).fetchnumpy()["value"].reshape(-1, 248)

    mine, theirs = best(ours, 3), best(peer, 1)
    print(f"matrix of {days * 1440 * 248:,} cells, sealed: {mine:.2f} s; DuckDB sort + reshape {theirs:.2f} s; "
          f"ratio {mine / theirs:.2f}")  # fmt: skip
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cells", type=int, default=32_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ioweather-bench-") as folder:
        figure_7(Path(folder), options.rows)
        matrices(Path(folder), options.cells)


if __name__ == "__main__":
    main()
