"""A month of a large centre through the lake on one machine: what it costs day by day, in memory and on disk.

    python benchmarks/centre.py [--days 30] [--osts 1000] [--logs 100000] [--probes 100] [--keep DIR]

Every day brings a day of server counters (read and written bytes of each OST, every 60 s), its share of the Darshan
logs (those of a simulated facility again and again, under their own numbers and times), and what probes measured (7
operations every ten minutes each). Then what is unhealthy is searched for, and the day is sealed. Processor seconds of
this process and its children, without those that making the data took. The peer of a day is the first one: the slope
says what each day costs more than the one before. Each day is printed when it is done.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine import records_of
from ioweather.core.frames import Frame, Text
from ioweather.core.tables import RESPONSES, TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.ingestion.derivations import refresh_rollups, search_new_rows
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.log import DarshanLog
from ioweather.readers.darshan.writer import write_log
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from reader_processes import stop_readers

FIRST = 20_000 * DAY_NS

OPERATIONS = ("read", "write", "write_sync", "create", "stat", "file_read", "delete")
EVERY_NS = 10 * MINUTE_NS
WORK = ("counters", "logs", "probes", "search", "seal")


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


def spent(work: Callable[[], object]) -> float:
    """Processor seconds of this process and of children that have ended."""

    def now() -> float:
        return sum(
            u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )

    began = now()
    work()
    stop_readers()
    return now() - began


def looks(day: int, probes: int, rng: np.random.Generator) -> Frame:
    """What all probes measured on a day."""
    times = FIRST + day * DAY_NS + np.arange(0, DAY_NS, EVERY_NS)
    place, host, op = (a.ravel() for a in np.indices((len(times), probes, len(OPERATIONS))))
    hosts = Text(host.astype(np.int32), tuple(f"n{i:03d}" for i in range(probes)))
    return RESPONSES.frame(
        rows=place.size, start_ns=times[place] + op, host=hosts,
        target="/scratch/probe", op=Text(op.astype(np.int32), OPERATIONS), request_bytes=1 << 20, mode="nocache",
        scheduled_ns=times[place], duration_ns=(rng.lognormal(16, 0.4, place.size)).astype(np.int64), system="scratch",
        cached=np.zeros(place.size, np.bool_), status="ok", run_id="run",
    )  # fmt: skip


def write_logs(
    folder: Path, logs: list[DarshanLog], count: int, first_id: int, start_ns: int, length_ns: int = DAY_NS
) -> None:
    """These logs again and again, evenly over a stretch of time, with numbers of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for n in range(count):
        log, start = logs[(first_id + n) % len(logs)], start_ns + n * length_ns // count
        times = {"start_ns": start, "end_ns": start + log.job.end_ns - log.job.start_ns}
        job = log.job._replace(**times, job_id=first_id + n)
        write_log(folder / f"{n:06}.darshan", job, log.modules, dict(log.names))


def logs_of_two_days(folder: Path) -> list[DarshanLog]:
    """Small ones of a simulated facility."""
    made = generate(for_days(LAPTOP, 2), folder)
    return [log for log in map(read_log, sorted(made.data.rglob("*.darshan"))) if records_of(log) <= 64]


def stored(lake: Lake) -> int:
    """Bytes of the files that the tables have now."""
    return sum(Path(uri.removeprefix("file://")).stat().st_size for t in lake.pinned().values() for uri in t.uris)


def one_day(lake: Lake, folder: Path, logs: list[DarshanLog], day: int, options: argparse.Namespace) -> list[float]:
    rng = np.random.default_rng(day)
    counters = [day_frame(day, options.osts, metric, rng) for metric in ("read_bytes", "write_bytes")]
    seen, count = looks(day, options.probes, rng), options.logs // options.days
    write_logs(folder / "logs", logs, count, day * count + 1, FIRST + day * DAY_NS)

    def measured() -> None:
        lake.append("responses", seen, source="spool")
        refresh_rollups(lake, seen)

    def read() -> None:
        assert len(ingest(lake, [folder / "logs"]).good) == count

    start = FIRST + day * DAY_NS
    return [
        spent(lambda: [lake.append("series", frame, source="tts") for frame in counters]),
        spent(read),
        spent(measured),
        spent(lambda: search_new_rows(lake, dict.fromkeys(("series", "responses", "applications"), start))),
        spent(lambda: compact(lake, everything=True)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--osts", type=int, default=1000)
    parser.add_argument("--logs", type=int, default=100_000)
    parser.add_argument("--probes", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="where the lake is made, and stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        logs = logs_of_two_days(folder / "facility")
        lake = open_lake(options.keep or folder / "lake", create=True)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {options.osts:,} OSTs, {options.logs:,} logs")
        print(f"{'day':>4}{''.join(f'{name:>10}' for name in WORK)}{'all, s':>10}{'MB':>9}{'peak MiB':>10}", flush=True)
        totals = []
        for day in range(options.days):
            found = one_day(lake, folder, logs, day, options)
            totals.append(sum(found))
            peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            cells = "".join(f"{seconds:>10.2f}" for seconds in [*found, sum(found)])
            print(f"{day + 1:>4}{cells}{stored(lake) / 1e6:>9.0f}{peak / 1024:>10.0f}", flush=True)
        days = np.arange(len(totals))
        slope, first = np.polyfit(days, totals, 1) if len(totals) > 1 else (0.0, totals[0])
        print(f"a day costs {first:.2f} s, and {slope * 1e3:.1f} ms more for each day before it")


if __name__ == "__main__":
    main()
