"""What the advisor predicted against what the change brought: pairs of runs before and after.

    python benchmarks/advisor.py ../shared/data

Real pairs are runs of IOR on one machine: the same bytes in 16 or 32 KiB requests and in 1 MiB, on a quiet device and
beside the same background. One program writes through rank 0; beside it stands IOR with a file per process, by bytes.
The published pair is the tuning case of car11 (section VI): a log that says what the paper says. Simulated pairs are
runs of the synthetic facility that changed their own pattern; what that cost is in its truth. Half of the runs do so
here, not the usual 8%; nothing else is set.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ioweather.advice.advisor.advise import advise
from ioweather.core.facility import parse_facility
from ioweather.core.units import GIB, MIB, NS
from ioweather.simulate.formats.facility_file import facility_toml
from ioweather.simulate.formats.logs import LogWriter
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.simulate.truth import run_parts
from ioweather.simulate.world import World
from ioweather.sources.darshan.model import DarshanJob
from ioweather.sources.darshan.writer import new_records, write_log
from ioweather.studies.job.heat_map import SCREEN
from ioweather.studies.job.view import JobView
from ioweather.workflows.job_log import view_of_log

# What undoes each change of a simulated run.
UNDONE_BY = {
    "smaller_requests": ("small_requests", "no_mpiio", "no_collectives", "unbuffered"),
    "more_files": ("file_per_process", "many_files", "shared_metadata"),
    "one_rank": ("rank_zero",),
}
SMALL = UNDONE_BY["smaller_requests"]


@dataclass(frozen=True)
class Pair:
    """Seconds of I/O: what was predicted to be saved, and what was; medians where there are several runs."""

    name: str
    before: float
    predicted: float
    actual: float
    runs: int = 1

    @property
    def error(self) -> float:
        """Of the actual saving."""
        return (self.predicted - self.actual) / self.actual


def view(path: Path) -> JobView:
    return view_of_log(path, "keep", SCREEN)


def io_seconds(path: Path) -> float:
    return float(view(path).row()["io_seconds"])


def predicted(job: JobView, rules: Sequence[str]) -> float:
    """What the costliest of these rules says; 0 where none saw anything."""
    return max((a.model_seconds for a in advise(job).patterns if a.name in rules), default=0.0)


def request_pairs(causes: Path) -> Iterator[Pair]:
    """The same bytes in small requests and in 1 MiB, at the same background."""
    runs: dict[tuple[str, int], list[Path]] = defaultdict(list)
    for run in json.loads((causes / "truth.json").read_text()):
        quiet = run["background_depth"] <= 1
        runs[run["transfer"], 0 if quiet else run["background_depth"]].append(causes / f"{run['job']}.darshan")
    for (size, depth), small in sorted(runs.items()):
        large = runs.get(("1m", depth))
        if size == "1m" or not large:
            continue
        before = float(np.median([io_seconds(path) for path in small]))
        after = float(np.median([io_seconds(path) for path in large]))
        said = float(np.median([predicted(view(path), SMALL) for path in small]))
        where = "quiet" if not depth else f"background depth {depth}"
        yield Pair(f"IOR {size[:-1]} KiB to 1 MiB requests, {where}", before, said, before - after, len(small))


def rank_zero_pair(real: Path) -> Pair:
    """Two programs: seconds of the second are scaled to the bytes of the first."""
    path = real / "rank0writer.darshan"
    row = view(path).row()
    others = [view(real / f"ior_posix_nn_write_{i}.darshan").row() for i in (1, 2)]
    after = float(np.median([other["io_seconds"] * row["moved_bytes"] / other["moved_bytes"] for other in others]))
    said = predicted(view(path), ("rank_zero",))
    return Pair("rank 0 to 8 writers (another program, by bytes)", row["io_seconds"], said, row["io_seconds"] - after)


def published_pair(folder: Path) -> Pair:
    """car11 VI: 8,192 processes (4 threads each), two checkpoints of 20 GiB in files per process; 728 s, nearly all of
    it metadata (25 s with the files made before); one shared file by collective MPI-IO took 17 s."""
    processes, steps, total, before, moving, after = 8192, 2, 40 * GIB, 728.0, 25.0, 17.0
    records = new_records("POSIX", processes * steps)
    records["id"], records["rank"] = np.arange(1, len(records) + 1), np.repeat(np.arange(processes), steps)
    each = total // len(records)
    for name, value in {
        "OPENS": 1, "WRITES": max(1, each // (2 * MIB)), "BYTES_WRITTEN": each, "MAX_BYTE_WRITTEN": each - 1,
        "SIZE_WRITE_1M_4M": max(1, each // (2 * MIB)), "F_META_TIME": (before - moving) / steps,
        "F_WRITE_TIME": moving / steps, "F_OPEN_START_TIMESTAMP": 1.0, "F_WRITE_START_TIMESTAMP": 1.0,
        "F_WRITE_END_TIMESTAMP": before,
    }.items():  # fmt: skip
        records[f"POSIX_{name}"] = value
    job = DarshanJob(1, 1, processes, 10**18, 10**18 + 1000 * NS, 1000.0, {}, "combustion", (("/", "gpfs"),))
    path = folder / "combustion.darshan"
    write_log(path, job, {"POSIX": records}, {i: f"/check/{i}" for i in range(1, len(records) + 1)})
    said = predicted(replace(view(path), processes_per_node=1), ("file_per_process",))
    return Pair("car11 VI: file per process to one shared file", before, said, before - after)


def simulated_pairs(folder: Path, days: int = 7, seed: int = 31) -> Iterator[Pair]:
    """Medians of all runs with one change of one class."""
    preset = replace(for_days(LAPTOP, days), own_change_ratio=0.5, detail_day=None)
    world = World(preset, seed)
    facility = parse_facility(tomllib.loads(facility_toml(preset, world.resources)))
    writer = LogWriter(folder, preset, world.resources, world.calendar, seed)
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for window in world.windows():
        for run in window.runs:
            change = run.program.change
            if change is None or not run.job.darshan:
                continue
            job = replace(view(writer.write(run)), facility=facility)
            found[change, run.program.kind].append(
                (run.io_seconds, predicted(job, UNDONE_BY[change]), run_parts(run)[3])
            )
    for (what, kind), seconds in sorted(found.items()):
        before, said, cost = (float(np.median([run[i] for run in seconds])) for i in range(3))
        yield Pair(f"simulated {kind}, undone: {what}".replace("_", " "), before, said, cost, len(seconds))


def all_pairs(shared: Path | None, days: int = 7, seed: int = 31) -> list[Pair]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [*request_pairs(shared / "causes"), rank_zero_pair(shared / "darshan" / "real")] if shared else []
        return [*pairs, published_pair(folder), *simulated_pairs(folder, days, seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, nargs="?", help="folder with causes/ and darshan/real/")
    parser.add_argument("--days", type=int, default=7, help="of the synthetic facility")
    parser.add_argument("--seed", type=int, default=31)
    options = parser.parse_args()
    print("| pair | runs | I/O before | predicted saving | actual saving | error |")
    print("|---|---|---|---|---|---|")
    pairs = all_pairs(options.shared, options.days, options.seed)
    for pair in pairs:
        print(
            f"| {pair.name} | {pair.runs} | {pair.before:.3g} s | {pair.predicted:.3g} s | {pair.actual:.3g} s "
            f"| {pair.error:+.0%} |"
        )
    errors = np.abs([pair.error for pair in pairs])
    print(f"\n{len(pairs)} pairs; median error {np.median(errors):.0%}, {np.mean(errors <= 0.25):.0%} within 25%")


if __name__ == "__main__":
    main()
