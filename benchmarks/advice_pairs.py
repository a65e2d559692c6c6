"""What the advisor promised against what the change brought: pairs of runs before and after.

    python benchmarks/advice_pairs.py ../shared/data [--local FOLDER] [--write]

- *public*: logs of Cori published with AIIO (Dong et al. 2023), the same program before and after a change;
- *measured*: IOR on one machine, the same bytes in 16 or 32 KiB requests and in 1 MiB, on a quiet device and beside the
  same background; one program that writes through rank 0 beside IOR with a file per process, by bytes;
- *local*: programs of `benchmarks/pairs` on a local disk, recorded by a preloaded library (`--local`: their logs);
  medians over their repeats;
- *published*: the tuning case of car11 (section VI), and a run of 1,024 processes on one stripe whose wider striping
  brought a quarter: logs that say what was reported;
- *simulated*: runs of the synthetic facility that changed their own pattern; what that cost is in its truth. Half of
  the runs do so here, not the usual 8%.

A change may leave a part of the pattern: a checkpoint with 4 files per process instead of 64 still has a file per
process. What the model said of a pair is therefore what it says of the run before, less what it says of the run after.

`--write` makes `job_io/advisor/record.toml`, from which promises and intervals are made. Coverage is that of each pair
by all others (leave one out).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ioweather.core.facility import parse_facility
from ioweather.core.units import GIB, MIB, NS
from ioweather.job_io.advisor import profile as record_module
from ioweather.job_io.advisor.advise import FLOOR_SECONDS, RULES, advise
from ioweather.job_io.advisor.profile import Past, Promise, promised_from, record
from ioweather.job_io.job_query import view_of_log
from ioweather.job_io.view import SCREEN, JobView
from ioweather.readers.darshan.log import DarshanJob, Module, Ragged
from ioweather.readers.darshan.writer import new_records, write_log
from ioweather.simulate.darshan_logs import LogWriter
from ioweather.simulate.generate import run_parts
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.simulate.text_files import facility_toml
from ioweather.simulate.world import Run, World

sys.path.insert(0, str(Path(__file__).parent / "pairs"))

from programs import PROGRAMS

RECORD = Path(record_module.__file__).with_name("record.toml")
# What is promised below this is not said.
PART_OF = {rule.name: rule.part for rule in RULES}
# What undoes each change of a simulated run.
UNDONE_BY = {
    "smaller_requests": ("small_requests", "no_mpiio", "no_collectives", "unbuffered"),
    "more_files": ("file_per_process", "many_files", "shared_metadata"),
    "one_rank": ("rank_zero",),
}
SMALL = UNDONE_BY["smaller_requests"]


# Files of the public pairs, by the numbers of their jobs: before, after, and the rule that the change follows.
PUBLIC = (
    ("IOR 1 KiB to 1 MiB writes", "66184525-37486", "66184525-37845", "small_requests"),
    ("E2E NetCDF-4 write, joined", "66168155-29343", "66168349-30869", "mpiio_splits"),
    ("IOR 1 KiB reads, without seeks", "66186284-26845", "66186300-27658", "seeks"),
    ("IOR 1 KiB reads, random to in order", "66197729-29582", "66186284-26845", "random_access"),
    ("IOR 1 KiB reads, strided to in order", "66186433-53883", "66186284-26845", "strided"),
    ("IOR 1 KiB synced writes, random to in order", "66196875-45977", "66184525-37486", "random_access"),
    ("IOR 1 KiB synced writes, strided to in order", "66186370-3983", "66184525-37486", "strided"),
)


@dataclass(frozen=True)
class Pair:
    """Seconds of I/O: what the rule's model said, and what was won; medians where there are several runs."""

    name: str
    origin: str
    rule: str
    before: float
    predicted: float
    actual: float
    runs: int = 1

    @property
    def error(self) -> float:
        """Of the actual saving."""
        return (self.predicted - self.actual) / self.actual

    @property
    def past(self) -> Past:
        return Past(
            self.rule, PART_OF[self.rule], self.origin, self.name, _short(self.before), _short(self.predicted),
            _short(self.actual),
        )  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def view(path: Path) -> JobView:
    return view_of_log(path, "keep", SCREEN)


def io_seconds(path: Path) -> float:
    return float(view(path).row()["io_seconds"])


def said(job: JobView, rules: Sequence[str]) -> dict[str, float]:
    """What the models of these rules say, where they saw something."""
    return {a.name: a.model_seconds for a in advise(job).patterns if a.name in rules}


def predicted(job: JobView, rules: Sequence[str], after: JobView | None = None) -> float:
    """What the costliest of these rules says of the change that was made; 0 where none saw anything."""
    return costliest(job, rules, after)[1]


def costliest(job: JobView, rules: Sequence[str], after: JobView | None = None) -> tuple[str, float]:
    """The rule of these whose model says most of the change, and what it says: less what it still says afterwards."""
    left = said(after, rules) if after else {}
    changed = {rule: seconds - left.get(rule, 0.0) for rule, seconds in said(job, rules).items()}
    return max(changed.items(), key=lambda item: item[1], default=(rules[0], 0.0))


def pair_of(name: str, origin: str, rule: str, runs: Sequence[tuple[JobView, JobView]]) -> Pair:
    """Medians over runs before and after."""
    before, after = (np.array([float(pair[i].row()["io_seconds"]) for pair in runs]) for i in (0, 1))
    model = [predicted(old, (rule,), new) for old, new in runs]
    return Pair(
        name, origin, rule, float(np.median(before)), float(np.median(model)),
        float(np.median(before) - np.median(after)), len(runs),
    )  # fmt: skip


def public_pairs(folder: Path) -> Iterator[Pair]:
    for name, old, new, rule in PUBLIC:
        before, after = (view(next(folder.glob(f"*id{number}_*.darshan"))) for number in (old, new))
        yield pair_of(name, "public", rule, [(before, after)])


def local_pairs(folder: Path) -> Iterator[Pair]:
    """Logs that `benchmarks/pairs/run.py` wrote."""
    for program in PROGRAMS:
        runs = [
            (view(old), view(old.with_name(old.name.replace(".before.", ".after."))))
            for old in sorted(folder.glob(f"{program.name}.*.before.darshan"))
        ]
        if runs:
            yield pair_of(f"{program.name} on a local disk".replace("-", " "), "local", program.rule, runs)


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
        model = float(np.median([predicted(view(path), SMALL) for path in small]))
        where = "quiet" if not depth else f"background depth {depth}"
        name = f"IOR {size[:-1]} KiB to 1 MiB requests, {where}"
        yield Pair(name, "measured", "small_requests", before, model, before - after, len(small))


def rank_zero_pair(real: Path) -> Pair:
    """Two programs: seconds of the second are scaled to the bytes of the first."""
    path = real / "rank0writer.darshan"
    row = view(path).row()
    others = [view(real / f"ior_posix_nn_write_{i}.darshan").row() for i in (1, 2)]
    after = float(np.median([other["io_seconds"] * row["moved_bytes"] / other["moved_bytes"] for other in others]))
    model = predicted(view(path), ("rank_zero",))
    name = "rank 0 to 8 writers (another program, by bytes)"
    return Pair(name, "measured", "rank_zero", row["io_seconds"], model, row["io_seconds"] - after)


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
    model = predicted(replace(view(path), processes_per_node=1), ("file_per_process",))
    name = "car11 VI: file per process to one shared file"
    return Pair(name, "published", "file_per_process", before, model, before - after)


def striping_pair(folder: Path) -> Pair:
    """A run of 1,024 processes on one stripe took 16.4 minutes at 668 MiB/s; wider striping won a quarter of them."""
    processes, before = 1024, 16.4 * 60
    total = int(668 * MIB * before)
    records = new_records("POSIX", 1)
    records["id"], records["rank"] = 1, -1
    for name, value in {
        "OPENS": processes, "WRITES": total // (4 * MIB), "BYTES_WRITTEN": total, "MAX_BYTE_WRITTEN": total - 1,
        "SIZE_WRITE_4M_10M": total // (4 * MIB), "F_WRITE_TIME": before * processes, "F_SLOWEST_RANK_TIME": before,
        "F_FASTEST_RANK_TIME": before, "SLOWEST_RANK_BYTES": total // processes, "F_OPEN_START_TIMESTAMP": 1.0,
        "F_WRITE_START_TIMESTAMP": 1.0, "F_WRITE_END_TIMESTAMP": before,
    }.items():  # fmt: skip
        records[f"POSIX_{name}"] = value
    stripes = new_records("LUSTRE", 1)
    stripes["id"], stripes["rank"], stripes["LUSTRE_OSTS"], stripes["LUSTRE_STRIPE_WIDTH"] = 1, -1, 248, 1
    stripes["LUSTRE_STRIPE_SIZE"] = MIB
    layout = Module("LUSTRE", 1, False, stripes, {"ost_ids": Ragged.of([[0]])})
    job = DarshanJob(1, 1, processes, 10**18, 10**18 + 1000 * NS, 1000.0, {}, "one_stripe", (("/", "lustre"),))
    path = folder / "one_stripe.darshan"
    write_log(path, job, {"POSIX": records, "LUSTRE": layout}, {1: "/scratch/run/out"})
    model = predicted(view(path), ("striping",))
    return Pair("1,024 processes, one stripe to many", "published", "striping", before, model, before / 4)


def simulated_pairs(folder: Path, days: int = 7, seed: int = 31) -> Iterator[Pair]:
    """Medians of all runs with one change of one class."""
    preset = replace(for_days(LAPTOP, days), own_change_ratio=0.5, detail_day=None)
    world = World(preset, seed)
    facility = parse_facility(tomllib.loads(facility_toml(preset, world.resources)))
    writer, usual = (
        LogWriter(folder / name, preset, world.resources, world.calendar, seed) for name in ("changed", "usual")
    )
    found: dict[tuple[str, str], list[tuple[str, float, float, float]]] = defaultdict(list)
    for window in world.windows():
        for run in window.runs:
            change = run.program.change
            if change is None or not run.job.darshan:
                continue
            job, undone = (
                replace(view(path), facility=facility) for path in (writer.write(run), usual.write(as_usual(run)))
            )
            rule, model = costliest(job, UNDONE_BY[change], undone)
            found[change, run.program.kind].append((rule, run.io_seconds, model, run_parts(run)[3]))
    for (what, kind), seconds in sorted(found.items()):
        before, model, cost = (float(np.median([run[i] for run in seconds])) for i in (1, 2, 3))
        rule = Counter(run[0] for run in seconds).most_common(1)[0][0]
        name = f"simulated {kind}, undone: {what}".replace("_", " ")
        yield Pair(name, "simulated", rule, before, model, cost, len(seconds))


def as_usual(run: Run) -> Run:
    """The run as it would have been, had it not changed its pattern: the truth has the seconds of every phase."""
    phases = [
        replace(phase, flow=replace(phase.flow, end=phase.flow.start + phase.flow.usual_seconds))
        for phase in run.phases
    ]
    return replace(run, program=run.usual, phases=phases)


def all_pairs(shared: Path | None, local: Path | None, days: int = 7, seed: int = 31) -> list[Pair]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [*local_pairs(local)] if local else []
        if shared:
            pairs += public_pairs(shared / "advice" / "pairs")
            pairs += [*request_pairs(shared / "causes"), rank_zero_pair(shared / "darshan" / "real")]
        return [*pairs, published_pair(folder), striping_pair(folder), *simulated_pairs(folder, days, seed)]


def covered(pairs: Sequence[Past]) -> list[tuple[Past, Promise]]:
    """What would have been promised for each pair by all others."""
    return [
        (pair, promised_from([p for p in pairs if p is not pair], pair.rule, pair.part, pair.modelled_seconds,
                             pair.before_seconds))
        for pair in pairs
    ]  # fmt: skip


def inside(pair: Past, promise: Promise) -> bool:
    return promise.low <= max(pair.won_seconds, 0.0) <= promise.high


def record_text(pairs: Sequence[Past]) -> str:
    lines = ["# Made by benchmarks/advice_pairs.py --write: what rules said, and what the change brought."]
    for pair in sorted(pairs, key=lambda p: (p.part, p.rule, p.origin, p.name)):
        lines.append("\n[[pair]]")
        for field, value in asdict(pair).items():
            lines.append(f'{field} = "{value}"' if isinstance(value, str) else f"{field} = {value}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, nargs="?", help="folder with advice/pairs/, causes/ and darshan/real/")
    parser.add_argument("--local", type=Path, help="logs of benchmarks/pairs/run.py")
    parser.add_argument("--days", type=int, default=7, help="of the synthetic facility")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--write", action="store_true", help="the record of the advisor")
    parser.add_argument("--recorded", action="store_true", help="coverage of the record as it is; run nothing")
    options = parser.parse_args()
    pairs = [] if options.recorded else all_pairs(options.shared, options.local, options.days, options.seed)
    past = list(record()) if options.recorded else [pair.past for pair in pairs]
    print("| pair | rule | I/O before | model | promised by the others (90%) | won | inside |")
    print("|---|---|---|---|---|---|---|")
    judged = covered(past)
    for pair, promise in judged:
        print(
            f"| {pair.name} | {pair.rule} | {pair.before_seconds:.3g} s | {pair.modelled_seconds:.3g} s | "
            f"{promise.seconds:.3g} s ({promise.low:.2g} to {promise.high:.3g}) | {pair.won_seconds:.3g} s | "
            f"{'yes' if inside(pair, promise) else 'no'} |"
        )
    for origin in ("public", "published", "measured", "local", "simulated", None):
        mine = [(pair, promise) for pair, promise in judged if origin in (None, pair.origin)]
        if mine:
            hits = sum(inside(pair, promise) for pair, promise in mine)
            given = [(pair, promise) for pair, promise in mine if promise.seconds >= FLOOR_SECONDS]
            high = [pair.name for pair, promise in given if promise.seconds > 1.5 * max(pair.won_seconds, 0.0)]
            print(
                f"\n{origin or 'all'}: {len(mine)} pairs; 90% intervals hold {hits / len(mine):.0%}; of {len(given)} "
                f"promises that are said, {len(high)} are more than 1.5 times what was won"
            )
            print(*(f"- {name}" for name in high), sep="\n")
    if options.write:
        RECORD.write_text(record_text(past))


if __name__ == "__main__":
    main()
