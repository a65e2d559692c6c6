"""What commands cost on the same facility after 3, 30 and more days.

    python benchmarks/growth.py [--days 3 30] [--preset cluster] [--folder DIR] [--write FILE] [--chart FILE.svg]
    python benchmarks/growth.py --days 30 --only "why JOB" "who, of an hour"     # a lake that was only ingested

A simulated cluster: 64 OSTs, a metadata server, probes, accounting and Darshan logs of some 200 records. Its files are
ingested by one command, and nothing else is done to the lake. Lakes in --folder (lake3, lake30) are used again.
Processor seconds and memory of whole commands, which start Python, the least of two; `again`: after the same command.
The last columns compare the two largest sizes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

import vl_convert

from ioweather.core.units import now_ns, utc_day
from ioweather.lake.lake import open_lake
from table import IOWEATHER, cost

# Of these, questions about one job, one hour or a week must not grow.
COMMANDS = {
    "job JOB": ("job", "{job}"),
    "why JOB": ("why", "{job}"),
    "who, of an hour": ("who",),
    "triage, first": ("triage",),
    "triage, again": ("triage",),
    "now": ("now", "--spool", "{spool}"),
    "forecast": ("forecast",),
    "health": ("health",),
    "jobs": ("jobs",),
    "show car11.fig7": ("show", "car11.fig7"),
    "report, first": ("report", "--out", "{out}"),
    "report, again": ("report", "--out", "{out}"),
    "a job's page, first": ("page", "/job/{job}"),
}
PAGE = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from ioweather.ui.web.app import create_app
with TestClient(create_app(Path(sys.argv[1]), hosts=("testserver",))) as client:
    assert client.get(sys.argv[2]).status_code == 200
"""


def measure(days: int, preset: str, folder: Path, only: Collection[str]) -> dict[str, tuple[float, float]]:
    """(processor seconds, MiB) by command; `ingest` only where the lake is made here."""
    spool = folder / "spool"
    if not spool.exists():  # `now` compares what a probe measures with the lake
        probe = [IOWEATHER, "probe", folder, "--spool", spool, "--for", "5s"]
        subprocess.run(probe, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files, lake = folder / f"files{days}", folder / f"lake{days}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    found = {}
    if not lake.exists():
        making = [IOWEATHER, "simulate", "--preset", preset, "--days", str(days), "--out", files]
        subprocess.run(making, check=True, **quiet)
        open_lake(lake, create=True)
        (lake / "facility.toml").write_bytes((files / "facility.toml").read_bytes())
        ingest = [IOWEATHER, "ingest", "--lake", lake, "--zone", "UTC", files / "data"]
        found["ingest"] = cost(_any_exit(ingest), 1)
    for cached in ("records", "exhibits"):
        shutil.rmtree(lake / cached, ignore_errors=True)
    with open_lake(lake).snapshot() as snapshot:
        job = str(snapshot.scalar("SELECT job_id FROM applications ORDER BY start_ns DESC LIMIT 1 OFFSET 20"))
    for name in only or COMMANDS:
        command, *options = COMMANDS[name]
        words = [option.format(job=job, out=folder / f"report{days}.html", spool=spool) for option in options]
        line = [IOWEATHER, command, *words, "--lake", lake]
        if command == "page":
            line = [IOWEATHER.with_name("python"), "-c", PAGE, lake, *words]
        found[name] = cost(_any_exit(line), 1 if "first" in name else 2)
        print(f"{days} days, {name}: {found[name][0]:.2f} s, {found[name][1]:.0f} MiB", flush=True)
    return found


def _any_exit(command: list[object]) -> list[str | Path]:
    """Exit codes say how storage is, or that a file was not read."""
    return ["sh", "-c", '"$@" || [ $? -eq 1 ]', "sh", *map(str, command)]


def _chart(rows: list[dict[str, object]]) -> dict[str, object]:
    """Vega-Lite: seconds by days, both logarithmic, a line for each command."""
    axes = {"days": "days in the lake", "seconds": "processor seconds"}
    place = {
        axis: {"field": name, "type": "quantitative", "scale": {"type": "log"}, "title": title}
        for axis, (name, title) in zip("xy", axes.items(), strict=True)
    }
    colour = {"field": "command", "type": "nominal", "scale": {"scheme": "tableau20"}, "title": None}
    mark = {"type": "line", "point": True}
    size = {"width": 420, "height": 320}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**place, "color": colour}, **size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=int, nargs="+", default=[3, 30])
    parser.add_argument("--preset", default="cluster")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=(), help="these commands alone")
    parser.add_argument("--folder", type=Path, help="where files and lakes are left (default: nowhere)")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        found = {days: measure(days, options.preset, folder, options.only) for days in options.days}
    heads = [f"{days} days" for days in options.days]
    lines = [f"{utc_day(now_ns())}, load {os.getloadavg()[0]:.0f}.", ""]
    lines += [f"| command | {' | '.join(heads)} | seconds | memory |", "|---" * (len(heads) + 3) + "|"]
    shown = [name for name in ("ingest", *COMMANDS) if all(name in found[days] for days in options.days)]
    for name in shown:
        sizes = [found[days][name] for days in options.days]
        cells = [f"{seconds:.2f} s, {memory:,.0f} MiB" for seconds, memory in sizes]
        growth = [f"{sizes[-1][i] / sizes[-2][i]:.1f}x" if len(sizes) > 1 else "" for i in (0, 1)]
        lines.append(f"| {name} | {' | '.join([*cells, *growth])} |")
    if options.chart is not None:
        rows = [
            {"days": days, "seconds": found[days][name][0], "command": name} for days in options.days for name in shown
        ]
        options.chart.write_text(vl_convert.vegalite_to_svg(_chart(rows)), encoding="utf-8")
    text = "\n".join(lines)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
