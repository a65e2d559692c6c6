"""How often `why` finds that storage slowed a job, with all Darshan logs withheld: accounting, devices and probe only.

    python benchmarks/jobs_without_log.py ../shared/data/testbed ../shared/data/testbed3

Every run is asked by the way that `ioweather why JOBID` goes. Slowed by the system: label system or both in truth.json,
without incidents that neither a server nor the probe could see (planted: hidden, mount), which are counted beside it.
Said to be: verdict `system`. False: that verdict on a run with label normal, you or layout. `noise` (slow without a
planted cause) is listed apart. `by run time` are those of them whose run time in whole seconds shows a slowdown at all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from scipy.stats import beta

import ioweather
from ioweather.job_io.outcomes import WhyOutcome
from ioweather.ui.cli.main import run as command

_UNSEEN = ("hidden", "mount")


def made_lake(folder: Path, place: Path) -> Path:
    """Accounting, device counters and probe of a testbed; no log."""
    lake = place / "lake"
    lake.mkdir(parents=True)
    (lake / "facility.toml").write_bytes((folder / "facility.toml").read_bytes())
    devices = place / "diskstats.log"
    packed = folder / "diskstats.log.gz"
    devices.write_bytes(gzip.decompress(packed.read_bytes()) if packed.exists() else _read(folder / "diskstats.log"))
    common = ["ingest", "--lake", str(lake), "--zone", "UTC"]
    for what in ([str(folder / "jobs.txt")], ["--raw", str(devices)], [str(folder / "probe")]):
        assert command([*common, *what]) == 0
    return lake


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _ratio(answer: WhyOutcome) -> float:
    return (answer.run_seconds or 0.0) / (answer.usual_run_seconds or 1e9)


def interval(hits: int, count: int) -> str:
    """A rate with its 95% interval (Clopper and Pearson)."""
    low = float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0
    return f"{hits}/{count} = {hits / max(count, 1):.0%} ({low:.0%} to {high:.0%})"


def score(folder: Path) -> None:
    truth: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text())["runs"]
    with tempfile.TemporaryDirectory() as place:
        lake = made_lake(folder, Path(place))
        said: dict[int, WhyOutcome] = {}
        for run in truth:
            result = ioweather.why(run["job_id"], lake=lake).result
            assert isinstance(result, WhyOutcome)
            assert result.evidence == "accounting"
            said[run["job_id"]] = result
    accused = [run for run in truth if said[run["job_id"]].kind in ("you", "both")]
    slowed = [run for run in truth if run["label"] in ("system", "both")]
    seen = [run for run in slowed if run["planted"] not in _UNSEEN]
    late = [
        r for r in seen if (said[r["job_id"]].run_seconds or 0) > 1.15 * (said[r["job_id"]].usual_run_seconds or 1e9)
    ]
    groups = {
        "slowed by the system": seen,
        "  of them, by run time": late,
        "  unseen by servers and probes": [run for run in slowed if run["planted"] in _UNSEEN],
        "false": [run for run in truth if run["label"] in ("normal", "you", "layout")],
        "  of them, own change": [run for run in truth if run["label"] == "you"],
        "noise": [run for run in truth if run["label"] == "noise"],
    }
    print(folder.name)
    for name, runs in groups.items():
        hits = sum(said[run["job_id"]].kind == "system" for run in runs)
        print(f"  {name:28} {interval(hits, len(runs))}")
    print(f"  {'users accused':28} {len(accused)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    for each in parser.parse_args().folders:
        score(each)
