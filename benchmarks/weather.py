"""The weather from 31 million operations: `now`, kun19.fig4 and kun19.fig6 from roll-ups, beside the same from every
operation, beside plain SQL on the same files; and what one more day costs to ship, by what the lake holds already.

python benchmarks/weather.py [--days 60] [--no-exact] [--lake DIR]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from ioweather.agent.spool import SPOOL_VERSION
from ioweather.agent.status import (
    OperationStatus,
    Outcome,
    Recent,
    SpoolStatus,
    Status,
    TargetStatus,
    write_status,
)
from ioweather.core.clock import utc_day
from ioweather.core.frames import Frame, Text
from ioweather.core.tables import RESPONSES, TABLES
from ioweather.core.units import DAY_NS, HOUR_NS, MIB, NS
from ioweather.lake import layout
from ioweather.lake.database import register_frame
from ioweather.lake.delta_tables import make_table
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.table_files import ONE_PER_KEY, DataFile
from ioweather.stats.rollups import all_intervals

# Operation, request, mode, usual seconds.
KINDS = (
    ("create", 3901, "cache", 9e-4),
    ("delete", 0, "cache", 6e-4),
    ("read", MIB, "nocache", 8e-3),
    ("stat", 0, "cache", 3e-4),
    ("write", MIB, "nocache", 5e-3),
    ("write_sync", MIB, "nocache", 2e-2),
)
FIRST = 20_500 * DAY_NS
TARGET, SYSTEM, HOST = "/scratch/weather", "mount:/scratch", "nid00001"
PER_DAY = 86_400


def a_day(number: int, rng: np.random.Generator) -> Frame:
    """A second apart, log-normal with a power-law tail, a slow afternoon every third day, one hang of 20 s."""
    ticks = FIRST + number * DAY_NS + np.arange(PER_DAY) * NS
    slow = np.where((np.arange(PER_DAY) // 3600 == 14) & (number % 3 == 0), 4.0, 1.0)
    missed = np.isin(np.arange(PER_DAY), np.arange(40_001, 40_020))
    durations = []
    for _, _, _, usual in KINDS:
        seconds = usual * slow * rng.lognormal(0, 0.3, PER_DAY) * (1 + rng.pareto(2.5, PER_DAY) * 0.2)
        seconds[40_000] = 20.0 if usual == KINDS[2][3] else seconds[40_000]
        durations.append(np.ma.MaskedArray(np.round(seconds * NS).astype(np.int64), mask=missed))
    kinds = len(KINDS)
    code = np.repeat(np.arange(kinds, dtype=np.int32), PER_DAY)
    return RESPONSES.frame(
        start_ns=np.tile(ticks, kinds), host=HOST, target=TARGET, op=Text(code, tuple(kind[0] for kind in KINDS)),
        request_bytes=np.repeat([kind[1] for kind in KINDS], PER_DAY),
        mode=Text(((code != 2) & (code < 4)).astype(np.int32), ("nocache", "cache")),
        scheduled_ns=np.tile(ticks, kinds),
        duration_ns=np.ma.concatenate(durations), system=SYSTEM, cached=np.zeros(kinds * PER_DAY, np.bool_),
        status=Text(np.tile(missed.astype(np.int32), kinds), ("ok", "missed")), run_id="run",
        rows=kinds * PER_DAY,
    )  # fmt: skip


def fill(lake: Lake, days: int) -> None:
    """Whole days at once, each one sorted file: as a sealed lake is after two months, without waiting for them."""
    rng = np.random.default_rng(1)
    tables = layout.tables_dir(lake.root)
    made: dict[str, list[DataFile]] = {"responses": [], "response_rollups": []}
    con = duckdb.connect()
    for number in range(days):
        frame = a_day(number, rng)
        day = utc_day(FIRST + number * DAY_NS)
        for name, rows, source in (("responses", frame, "spool"), ("response_rollups", all_intervals(frame), "rollup")):
            spec = TABLES[name]
            path = f"day={day}/{'part' if spec.keeps_revisions else ONE_PER_KEY}-0.zstd.parquet"
            (tables / name / path).parent.mkdir(parents=True)
            order = ", ".join(spec.order)
            con.execute(
                f"COPY (SELECT *, '{source}' AS source, '0-0' AS ingest_id FROM ({register_frame(con, 'rows', rows)}) "
                f"ORDER BY {order}) TO '{tables / name / path}' (FORMAT parquet, COMPRESSION zstd, "
                f"ROW_GROUP_SIZE {spec.group_rows})"
            )
            size = (tables / name / path).stat().st_size
            made[name].append(DataFile(path, size, day, rows.rows, "{}"))
    for name, files in made.items():
        make_table(tables, TABLES[name]).add(files, ())


def write_agent_status(spool: Path, at_ns: int) -> None:
    """As if the agent ran at the end of the last day."""
    spool.mkdir(parents=True, exist_ok=True)
    operations = tuple(
        OperationStatus(
            op, size, mode, ok_count=1000, last=Outcome(at_ns, "ok"), recent=Recent(60 * NS, 60, 10_000_000)
        )
        for op, size, mode, _ in KINDS
    )
    target = TargetStatus(TARGET, SYSTEM, "waiting", NS, operations=operations)
    write_status(Status(HOST, 1, "b", "r", "running", at_ns, at_ns, NS, SpoolStatus(str(spool)), (target,)), spool)


def write_segments(folder: Path, number: int) -> None:
    """One more day as the agent leaves it: a segment every five minutes."""
    folder.mkdir()
    frame = a_day(number, np.random.default_rng(2))
    records = sorted(frame.records(), key=lambda row: row["start_ns"])
    header = {"ioweather_spool": SPOOL_VERSION, "host": HOST, "boot_id": "b", "run_id": "run", "opened_ns": 0}
    size = len(records) // 288
    for first in range(0, len(records), size):
        lines = [
            json.dumps(header),
            *(json.dumps({"table": "responses", **row}) for row in records[first : first + size]),
        ]
        (folder / f"seg-{HOST}-{records[first]['start_ns']}-1.ndjson").write_text("\n".join(lines) + "\n")


def run(*arguments: str) -> tuple[float, float]:
    """A command in a process of its own: wall seconds, CPU seconds."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, "-m", "ioweather", *arguments], stdout=output, stderr=output)
        _, state, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(state)
        if process.returncode not in (0, 1):
            output.seek(0)
            raise SystemExit(f"{arguments}: {output.read().decode()}")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def best(*arguments: str, times: int = 3) -> tuple[float, float]:
    return min((run(*arguments) for _ in range(times)), key=lambda found: found[1])


def plain_sql(lake: Path, interval_ns: int) -> tuple[float, float]:
    """The same aggregation as a person would write it over the raw files."""
    files = str(lake / "tables/responses/*/*.parquet")
    before, started = time.process_time(), time.perf_counter()
    duckdb.connect().sql(
        f"SELECT op, start_ns // {interval_ns} AS step, avg(duration_ns), max(duration_ns), "
        "quantile_disc(duration_ns, [0.5, 0.9, 0.95, 0.99]), count(*) "
        f"FROM read_parquet('{files}') WHERE status = 'ok' GROUP BY ALL"
    ).fetchall()
    return time.perf_counter() - started, time.process_time() - before


def line(name: str, rolled: tuple[float, float], exact: tuple[float, float], sql: tuple[float, float]) -> str:
    return (
        f"| {name} | {rolled[0]:.2f} / {rolled[1]:.2f} | {exact[0]:.1f} / {exact[1]:.1f} | {sql[0]:.1f} / {sql[1]:.1f} "
        f"| {sql[1] / rolled[1]:.1f} |"
    )


def answers(root: Path, lake: Path, days: int, *, exact: bool) -> None:
    spool = root / "status"
    print("| answer | roll-ups, s (wall / CPU) | exact | plain SQL on raw files | SQL / roll-ups (CPU) |")
    print("|---|---|---|---|---|")
    write_agent_status(spool, FIRST + days * DAY_NS)
    now = ("now", "--spool", str(spool), "--lake", str(lake), "--json")
    print(line("now", best(*now), best(*now, "--exact", times=1), plain_sql(lake, 1 << 62)))
    for exhibit, interval_ns in (("kun19.fig4", 4 * HOUR_NS), ("kun19.fig6", 600 * NS)):
        show = ("show", exhibit, "--lake", str(lake), "--fresh", "--json")
        slow = best(*show, "--exact", times=1) if exact else (math.nan, math.nan)
        print(line(exhibit, best(*show), slow, plain_sql(lake, interval_ns)))


def shipping(root: Path, lake: Path, days: int) -> None:
    """By `ingest`, which is what the agent's ship child runs."""
    segments = root / "segments"
    write_segments(segments, days)
    parts = sorted(segments.iterdir())
    for name, chosen in (("one ship of 5 minutes", parts[:1]), ("the rest of the day", parts[1:])):
        cost = {}
        for state, place in (("empty", root / "empty"), ("full", lake)):
            cost[state] = run("ingest", *map(str, chosen), "--lake", str(place), "--workers", "1")
        (empty_wall, empty_cpu), (full_wall, full_cpu) = cost["empty"], cost["full"]
        print(
            f"{name}: empty lake {empty_wall:.2f} s ({empty_cpu:.2f} CPU), full lake {full_wall:.2f} s "
            f"({full_cpu:.2f} CPU): {full_cpu / empty_cpu:.2f} times"
        )


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--no-exact", action="store_true", help="Leave out the exhibits from every operation.")
    parser.add_argument("--lake", type=Path, help="Keep the lake here, or use the one that is here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # As installed: compiled once, wherever this is started from.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(root / "compiled")
        place = options.lake or root / "lake"
        if not place.exists():
            lake = open_lake(place, create=True)
            print(f"built in {timed(lambda: fill(lake, options.days)):.0f} s")
        size = sum(file.stat().st_size for file in place.rglob("*.parquet"))
        operations = options.days * PER_DAY * len(KINDS)
        print(f"{operations:,} operations, {size / 2**20:,.0f} MiB, load {os.getloadavg()[0]:.1f}")
        answers(root, place, options.days, exact=not options.no_exact)
        shipping(root, place, options.days)


if __name__ == "__main__":
    main()
