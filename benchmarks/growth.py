"""What an ingest, questions and pages cost as days and runs add up in a lake, on one chart.

    python benchmarks/growth.py [--runs 100000 1000000] [--results FILE] [--svg docs/images/growth.svg]

Lakes of 1, 10 and 100 days, each day with 100 runs, the counters of 16 OSTs every 60 s and what four probes measured.
Then more and more runs in the 100 days. Logs are those of a simulated facility again and again, under their own numbers
and times. Processor seconds: of an ingest all so far, with the search for unhealthy components and sealing; of others
those of the whole command, which starts Python, the least of two. The slope is the exponent p of cost ~ size^p between
the two largest sizes: 0 for a cost that does not grow, 1 for one that grows as the data do.

Every size is written to --results when it is done; the table and the chart are made of what is there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import vl_convert

import centre
import lake as lake_days
from ioweather.core.units import DAY_NS
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from table import IOWEATHER, cost

DAYS = (1, 10, 100)
RUNS_A_DAY = 100
AT_ONCE = 50_000  # logs on disk
PAGES = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from ioweather.ui.web.app import create_app
with TestClient(create_app(Path(sys.argv[1]), hosts=("testserver",))) as client:
    for place in ("/", "/job"):
        assert client.get(place).status_code == 200
"""


def questions(lake: Lake, spool: Path) -> dict[str, float]:
    with lake.snapshot() as snapshot:
        runs = snapshot.query("SELECT job_id, start_ns FROM applications ORDER BY start_ns").fetchall()
    job, start_ns = runs[len(runs) // 2]
    hour = start_ns // 10**9 // 3600 * 3600
    asked: dict[str, list[object]] = {
        # Its exit code says how storage is.
        "`now`": ["sh", "-c", f"{IOWEATHER} now --spool {spool} --lake {lake.root} || true"],
        "`why JOB`": [IOWEATHER, "why", job, "--lake", lake.root],
        "`who`, of an hour": [IOWEATHER, "who", "--from", f"@{hour}", "--to", f"@{hour + 3600}", "--lake", lake.root],
        "`job JOB`": [IOWEATHER, "job", job, "--lake", lake.root],
        "two pages of a new server": [sys.executable, "-c", PAGES, lake.root],
    }
    return {name: cost([str(part) for part in command], 2)[0] for name, command in asked.items()}


def more_runs(lake: Lake, folder: Path, logs: list[centre.DarshanLog], known: int, wanted: int) -> float:
    """Spread over all days; processor seconds of reading and sealing them."""
    seconds = 0.0
    for first in range(known, wanted, AT_ONCE):
        count = min(AT_ONCE, wanted - first)
        centre.write_logs(folder / "logs", logs, count, first + 1, centre.FIRST + first, DAYS[-1] * DAY_NS)
        seconds += centre.spent(lambda: ingest(lake, [folder / "logs"], search=False))
    return seconds + centre.spent(lambda: compact(lake, everything=True))


def grow(folder: Path, runs: list[int], results: Path) -> None:
    found: list[dict[str, object]] = []
    spool, seconds = folder / "spool", 0.0
    subprocess.run([IOWEATHER, "probe", folder, "--spool", spool, "--for", "5s"], check=True, stdout=subprocess.DEVNULL)
    logs = centre.logs_of_two_days(folder / "facility")

    def note(by: str, size: int) -> None:
        asked = {"ingest and sealing, all so far": seconds, **questions(lake, spool)}
        found.append({"by": by, "size": size, "seconds": asked, "load": os.getloadavg()[0]})
        results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(found[-1], flush=True)

    for days in DAYS:
        # The newest day is yesterday, so that `now` has something to compare with.
        centre.FIRST = lake_days.FIRST = (time.time_ns() // DAY_NS - days) * DAY_NS
        lake, known = open_lake(folder / f"lake{days}", create=True), days * RUNS_A_DAY
        options = argparse.Namespace(osts=16, probes=4, days=days, logs=known)
        seconds = sum(sum(centre.one_day(lake, folder, logs, day, options)) for day in range(days))
        note("days", days)
    found.append({**found[-1], "by": "runs", "size": known})
    for wanted in runs:
        seconds += more_runs(lake, folder, logs, known, wanted)
        known = wanted
        note("runs", wanted)


TITLES = {"days": f"days, {RUNS_A_DAY} runs in each", "runs": f"runs in {DAYS[-1]} days"}


def chart(found: list[dict[str, dict[str, float]]]) -> str:
    panels = []
    for by, title in TITLES.items():
        sizes = [each for each in found if each["by"] == by]
        values = [
            {"size": each["size"], "work": work.replace("`", ""), "seconds": seconds}
            for each in sizes
            for work, seconds in each["seconds"].items()
        ]
        panels.append({
            "width": 300, "height": 300, "data": {"values": values}, "mark": {"type": "line", "point": True},
            "encoding": {
                "x": {"field": "size", "type": "quantitative", "scale": {"type": "log"}, "title": title,
                      "axis": {"values": [each["size"] for each in sizes], "format": ",d"}},
                "y": {"field": "seconds", "type": "quantitative", "scale": {"type": "log"},
                      "title": "processor seconds" if by == "days" else None,
                      "axis": {"values": [10.0**k for k in range(-1, 4)], "format": "~g"}},
                "color": {"field": "work", "type": "nominal", "title": None,
                          "sort": [work.replace("`", "") for work in found[0]["seconds"]],
                          "legend": {"orient": "bottom", "columns": 3, "labelLimit": 260}},
            },
        })  # fmt: skip
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": "white", "hconcat": panels,
        "resolve": {"scale": {"y": "shared"}},
    }  # fmt: skip
    return vl_convert.vegalite_to_svg(json.dumps(spec))


def table(found: list[dict[str, dict[str, float]]]) -> str:
    lines = []
    for by, title in TITLES.items():
        sizes = [each for each in found if each["by"] == by]
        lines += [
            f"| {title} | {' | '.join(format(each['size'], ',') for each in sizes)} | slope |",
            f"|---|{'---|' * (len(sizes) + 1)}",
        ]
        for work in found[0]["seconds"]:
            costs = [each["seconds"][work] for each in sizes]
            pairs = [*itertools.pairwise(zip((each["size"] for each in sizes), costs, strict=True))]
            (small, less), (large, more) = pairs[-1] if pairs else ((1, 1.0), (2, math.nan))
            slope = math.log(more / less) / math.log(large / small)
            lines.append(f"| {work} | {' | '.join(f'{each:.2f} s' for each in costs)} | {slope:.2f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--results", type=Path, default=Path("growth.json"))
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--drawn", action="store_true", help="of results that are there, nothing is measured")
    arguments = parser.parse_args()
    if not arguments.drawn:
        with tempfile.TemporaryDirectory() as folder:
            grow(Path(folder), sorted(arguments.runs), arguments.results)
    found = json.loads(arguments.results.read_text(encoding="utf-8"))
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {min(each['load'] for each in found):.1f} to "
          f"{max(each['load'] for each in found):.1f}")  # fmt: skip
    print(table(found))
    if arguments.svg:
        arguments.svg.write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
