"""Savings that the advisor expected, and what each change saved: pairs of runs before and after.

    python benchmarks/advice_pairs.py ../shared/data [--mounted FOLDER ...] [--write]

- *public*: logs of Cori published with AIIO (Dong et al. 2023), the same program before and after a change;
- *beds*: IOR, mdtest and Python programs on MooseFS and on GlusterFS, recorded by Darshan's runtime: each run with a
  costly pattern at a quiet time, against the median of the program's normal runs at quiet times;
- *measured*: IOR on one machine, the same bytes in 16 or 32 KiB requests and in 1 MiB, on a quiet device and beside the
  same background; one program that writes through rank 0 beside IOR with a file per process, by bytes;
- *mounted*: programs of `benchmarks/pairs` on a mounted file system, recorded by a preloaded library (`--mounted`:
  their logs); medians over their repeats;
- *published*: the tuning case of car11 (section VI): a log that says what was reported.

A change may leave a part of the pattern: a checkpoint with 4 files per process instead of 64 still has a file per
process. What the model said of a pair is therefore what it says of the run before, less what it says of the run after.

`--write` makes `job_io/advisor/record.toml`, from which savings and intervals are made. A third of the pairs of beds
and of mounted GlusterFS, by the digest of their names, is put aside and never written. Coverage of the others is that
of each pair by all others (leave one out), of those put aside by the record.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ioweather.core.units import GIB, MIB, NS
from ioweather.job_io.advisor import expected_savings
from ioweather.job_io.advisor.advise import FLOOR_SECONDS, RULES, advise
from ioweather.job_io.advisor.expected_savings import MeasuredChange, Saving, record, saving_from_pairs
from ioweather.job_io.advisor.profile import Storage, profile_of
from ioweather.job_io.view import JobView, view_of_log
from ioweather.readers.darshan.log import DarshanJob
from ioweather.readers.darshan.writer import new_records, write_log

sys.path.insert(0, str(Path(__file__).parent / "pairs"))

from programs import PROGRAMS

RECORD = Path(expected_savings.__file__).with_name("record.toml")
# Smaller expected savings are not shown.
PART_OF = {rule.name: rule.part for rule in RULES}
# Requests that are joined; what undoes each costly setting of a program of the beds.
SMALL = ("small_requests", "no_mpiio", "no_collectives", "unbuffered")
FILES = ("small_files", "many_files", "file_per_process")
UNDONE_BY = {
    "random": (*SMALL, "random_access", "strided"), "z": (*SMALL, "random_access", "strided"), "n": FILES,
    "Y": (*SMALL, "fsync_storm"), "fsync_each": (*SMALL, "fsync_storm"),
}  # fmt: skip

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
    storage: Storage = "local"
    moved_bytes: int = 0

    @property
    def error(self) -> float:
        """Of the actual saving."""
        return (self.predicted - self.actual) / self.actual

    @property
    def past(self) -> MeasuredChange:
        return MeasuredChange(
            self.rule, PART_OF[self.rule], self.storage, self.origin, self.name,
            _short(self.before), _short(self.predicted),
            _short(self.actual), self.moved_bytes,
        )  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def view(path: Path) -> JobView:
    return view_of_log(path, "keep")


def storage_of(job: JobView) -> Storage:
    return profile_of(job).storage or "local"


def put_aside(pair: MeasuredChange) -> bool:
    """A third of the pairs on file systems that were set up for this, by their names alone."""
    ours = pair.origin == "beds" or (pair.origin == "mounted" and pair.storage == "parallel")
    return ours and int(hashlib.sha256(pair.name.encode()).hexdigest(), 16) % 3 == 0


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
        float(np.median(before) - np.median(after)), len(runs), storage_of(runs[0][0]),
        int(runs[0][0].row()["moved_bytes"]),
    )  # fmt: skip


def public_pairs(folder: Path) -> Iterator[Pair]:
    for name, old, new, rule in PUBLIC:
        before, after = (view(next(folder.glob(f"*id{number}_*.darshan"))) for number in (old, new))
        yield pair_of(name, "public", rule, [(before, after)])


def bed_pairs(bed: Path) -> Iterator[Pair]:
    """Costly runs at quiet times, each against the median of the same program's normal runs at quiet times."""
    quiet = [run for run in json.loads((bed / "truth.json").read_text())["runs"] if run["planted"] == "quiet"]
    normal: dict[str, list[JobView]] = defaultdict(list)
    for run in quiet:
        if run["own_change"] == "normal":
            normal[run["application"]].append(view(bed / "logs" / run["log"]))
    for run in quiet:
        if run["own_change"] != "costly":
            continue
        usual = sorted(normal[run["application"]], key=lambda job: float(job.row()["io_seconds"]))
        after, job = usual[len(usual) // 2], view(bed / "logs" / run["log"])
        rules = next((UNDONE_BY[key] for key in UNDONE_BY if key in run["variant"]), SMALL)
        rule, model = costliest(job, rules, after)
        before, then = (float(each.row()["io_seconds"]) for each in (job, after))
        change = " ".join(f"{key}={value}" for key, value in run["variant"].items())
        name = f"{run['application']} {change} ({run['log'].removesuffix('.darshan')}) on {bed.name}"
        yield Pair(name, "beds", rule, before, model, before - then, 1, storage_of(job), int(job.row()["moved_bytes"]))


def mounted_pairs(folder: Path) -> Iterator[Pair]:
    """Logs that `benchmarks/pairs/run.py` wrote."""
    for program in PROGRAMS:
        runs = [
            (view(old), view(old.with_name(old.name.replace(".before.", ".after."))))
            for old in sorted(folder.glob(f"{program.name}.*.before.darshan"))
            if old.with_name(old.name.replace(".before.", ".after.")).exists()
        ]
        if runs:
            # The type of a MooseFS mount is just "fuse".
            parallel = "GlusterFS" if profile_of(runs[0][0]).kind == "GlusterFS" else "MooseFS"
            where = "a local disk" if storage_of(runs[0][0]) == "local" else parallel
            yield pair_of(f"{program.name} on {where}".replace("-", " "), "mounted", program.rule, runs)


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
    return Pair(name, "published", "file_per_process", before, model, before - after, storage="parallel")


def all_pairs(shared: Path | None, mounted: Sequence[Path]) -> list[Pair]:
    pairs = [pair for folder in mounted for pair in mounted_pairs(folder)]
    if shared:
        pairs += public_pairs(shared / "advice" / "pairs")
        pairs += [pair for bed in ("testbed", "testbed3") for pair in bed_pairs(shared / bed)]
        pairs += [*request_pairs(shared / "causes"), rank_zero_pair(shared / "darshan" / "real")]
    with tempfile.TemporaryDirectory() as name:
        return [*pairs, published_pair(Path(name))]


def covered(
    pairs: Sequence[MeasuredChange], past: Sequence[MeasuredChange] | None = None
) -> list[tuple[MeasuredChange, Saving]]:
    """The saving for each pair from the past; by default from all the other pairs."""
    return [(pair, _saving(pair, [p for p in pairs if p is not pair] if past is None else past)) for pair in pairs]


def _saving(pair: MeasuredChange, past: Sequence[MeasuredChange]) -> Saving:
    kin = [other for other in past if other.storage == pair.storage]
    rate = pair.moved_bytes / pair.before_seconds
    return saving_from_pairs(kin, pair.rule, pair.part, pair.modelled_seconds, pair.before_seconds, rate)


def inside(pair: MeasuredChange, saving: Saving) -> bool:
    return saving.low <= max(pair.saved_seconds, 0.0) <= saving.high


def record_text(pairs: Sequence[MeasuredChange]) -> str:
    lines = ["# Made by benchmarks/advice_pairs.py --write: what rules said, and what the change brought."]
    for pair in sorted(pairs, key=lambda p: (p.part, p.rule, p.origin, p.name)):
        lines.append("\n[[pair]]")
        for field, value in asdict(pair).items():
            lines.append(f'{field} = "{value}"' if isinstance(value, str) else f"{field} = {value}")
    return "\n".join(lines) + "\n"


def summary(title: str, judged: Sequence[tuple[MeasuredChange, Saving]]) -> None:
    """Print how many intervals hold, how many changes are "up to", and expected savings far above what was saved."""
    tried = [(pair, saving) for pair, saving in judged if saving.tried]
    said = [(pair, saving) for pair, saving in tried if saving.seconds >= FLOOR_SECONDS]
    high = [pair.name for pair, saving in said if saving.seconds > 1.5 * max(pair.saved_seconds, 0.0)]
    hits = sum(inside(pair, saving) for pair, saving in tried)
    print(
        f"\n{title}: {len(judged)} pairs, {len(judged) - len(tried)} of them 'up to'; 90% intervals hold {hits} of "
        f"{len(tried)}; of {len(said)} savings of a second or more, {len(high)} are above 1.5 times what was saved"
    )
    print(*(f"- {name}" for name in high), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, nargs="?", help="folder with advice/pairs/, testbed/, causes/ and others")
    parser.add_argument("--mounted", type=Path, action="append", default=[], help="logs of benchmarks/pairs/run.py")
    parser.add_argument("--write", action="store_true", help="the record of the advisor")
    parser.add_argument("--recorded", action="store_true", help="coverage of the record as it is; run nothing")
    options = parser.parse_args()
    every = list(record()) if options.recorded else [p.past for p in all_pairs(options.shared, options.mounted)]
    # Mounted pairs stay those of the record unless they are measured again.
    measured = {pair.name for pair in every}
    if not options.recorded:
        every += [pair for pair in record() if pair.origin == "mounted" and pair.name not in measured]
    # Where the model says nothing of a change, there is nothing to keep.
    every = [pair for pair in every if pair.modelled_seconds > 0]
    past, aside = [p for p in every if not put_aside(p)], [p for p in every if put_aside(p)]
    judged, kept_back = covered(past), covered(aside, past)
    print("| pair | rule | I/O before | model | expected from the others (90%) | saved | inside |")
    print("|---|---|---|---|---|---|---|")
    for pair, saving in [*judged, *kept_back]:
        seconds = f"{saving.seconds:.3g} s" if saving.tried else f"up to {saving.high:.3g} s"
        print(
            f"| {pair.name} | {pair.rule} | {pair.before_seconds:.3g} s | {pair.modelled_seconds:.3g} s | "
            f"{seconds} ({saving.low:.2g} to {saving.high:.3g}) | {pair.saved_seconds:.3g} s | "
            f"{'yes' if inside(pair, saving) else 'no'} |"
        )
    for origin in ("public", "published", "beds", "measured", "mounted"):
        summary(origin, [(pair, saving) for pair, saving in judged if pair.origin == origin])
    for storage in ("parallel", "local"):
        summary(f"{storage} storage", [(pair, saving) for pair, saving in judged if pair.storage == storage])
    for origin in ("beds", "mounted"):
        summary(f"put aside, {origin}", [(pair, saving) for pair, saving in kept_back if pair.origin == origin])
    if options.write:
        RECORD.write_text(record_text(past))


if __name__ == "__main__":
    main()
