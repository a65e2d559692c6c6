"""What an ingest, a question and a page cost as a facility's days add up: 1, 8 and 64 days, on one chart.

    python benchmarks/growth.py [--days 1 8 64] [--svg docs/images/growth.svg]

Processor seconds of whole commands and their children, the least of two; each starts Python and loads what it needs, so
that small lakes cost as much as that. The peer is one day: the slope is the exponent p of cost ~ days^p between the two
largest lakes, 0 for a cost that does not grow and 1 for one that grows as the data do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import vl_convert

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.store.lake import Lake, open_lake
from table import IOWEATHER, cost

INGEST = """
import sys
from pathlib import Path
from ioweather.core.clock import zone_named
from ioweather.core.contracts import ReadContext
from ioweather.store.lake import open_lake
from ioweather.store.seal import compact
from ioweather.workflows.ingest.ingest import ingest
lake = open_lake(Path(sys.argv[1]), create=True)
assert not ingest(lake, [Path(sys.argv[2])], context=ReadContext(zone=zone_named(sys.argv[3]))).bad
compact(lake)
"""
PAGES = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from ioweather.web.app import create_app
with TestClient(create_app(Path(sys.argv[1]), hosts=("testserver",))) as client:
    for place in ("/", "/job"):
        assert client.get(place).status_code == 200
"""


def measure(folder: Path, days: int) -> dict[str, float]:
    preset = replace(
        for_days(LAPTOP, days), detail_day=None, probe_seconds=1200, sampler_seconds=21_600, scan_files=200
    )
    made = generate(preset, folder / "facility", seed=5)
    root = folder / "lake"
    found = {"ingest and sealing": cost([sys.executable, "-c", INGEST, root, made.data, made.zone], 1)[0]}
    shutil.copy(made.facility, root / "facility.toml")
    job, first, last = middle_run(open_lake(root))
    found["`why JOB`"] = cost([IOWEATHER, "why", job, "--lake", root], 2)[0]
    found["`who`, of an hour"] = cost([IOWEATHER, "who", "--from", f"@{first}", "--to", f"@{last}", "--lake", root], 2)[
        0
    ]
    found["`job JOB`"] = cost([IOWEATHER, "job", job, "--lake", root], 2)[0]
    found["two pages of a new server"] = cost([sys.executable, "-c", PAGES, root], 2)[0]
    return found


def middle_run(lake: Lake) -> tuple[str, int, int]:
    """Its job, and the hour in seconds that it began in."""
    with lake.snapshot() as snapshot:
        runs = snapshot.query("SELECT job_id, start_ns FROM applications ORDER BY start_ns").fetchall()
    job, start_ns = runs[len(runs) // 2]
    hour = start_ns // 10**9 // 3600 * 3600
    return str(job), hour, hour + 3600


def chart(costs: dict[int, dict[str, float]]) -> str:
    values = [{"days": n, "work": work, "seconds": s} for n, found in costs.items() for work, s in found.items()]
    scale = {"type": "log"}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 460, "height": 300, "background": "white", "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "days", "type": "quantitative", "scale": scale, "title": "days in the lake",
                  "axis": {"values": sorted(costs)}},
            "y": {"field": "seconds", "type": "quantitative", "scale": scale, "title": "processor seconds"},
            "color": {"field": "work", "title": None, "sort": [*costs[min(costs)]]},
        },
    }  # fmt: skip
    return vl_convert.vegalite_to_svg(json.dumps(spec))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    costs: dict[int, dict[str, float]] = {}
    for days in sorted(arguments.days):
        with tempfile.TemporaryDirectory() as folder:
            costs[days] = measure(Path(folder), days)
        print(days, costs[days], flush=True)
    listed = sorted(costs)
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"| work | {' | '.join(f'{days} days' for days in listed)} | slope |")
    print(f"|---|{'---|' * (len(listed) + 1)}")
    for work in costs[listed[0]]:
        found = [costs[days][work] for days in listed]
        slope = math.log(found[-1] / found[-2]) / math.log(listed[-1] / listed[-2]) if len(found) > 1 else math.nan
        print(f"| {work} | {' | '.join(f'{each:.2f} s' for each in found)} | {slope:.2f} |")
    if arguments.svg:
        arguments.svg.write_text(chart(costs), encoding="utf-8")


if __name__ == "__main__":
    main()
