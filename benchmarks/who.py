"""How often the right job is named, where everything is known, and how long it takes to ask.

    python benchmarks/who.py simulated --seeds 201 202         # planted truth, with and without servers' counts of jobs
    python benchmarks/who.py testbed ../shared/data/testbed    # real runs beside real competitors

Simulated: what every job cost every run is integrated by the facility's own model, which ioweather does not know.
Harmed is a run whose worst neighbour cost it h or more: 15% of the time it takes alone, and twice the spread of similar
runs where that is more. Runs that incidents hit (half of what others cost them, or more) are left out: a sick target is
nobody's doing. Without servers' counts, jobs outside the scheduler (transfers, scans) leave no record: where one of
these did it, naming nobody is right. The peer names the job that moved most bytes meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ioweather.core.errors import IoweatherError
from ioweather.core.units import NS, utc_day
from ioweather.diagnosis.blame import NAMED_FROM, Blame, blame
from ioweather.diagnosis.blame_query import read_activity, read_slowed_run
from ioweather.diagnosis.similar_runs import read_conditions, similar_runs
from ioweather.diagnosis.verdict_wording import explain, with_usual_of_verdict
from ioweather.job_io.outcomes import WhyOutcome
from ioweather.job_io.view import view_in, view_of_run
from ioweather.lake.lake import Snapshot
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP, Preset, preset_named
from ioweather.topics.source import DataSource
from job_counts import count_jobs  # a module of this folder

HARM_SHARE = 0.15
# Two sick components a week among many jobs and transfers: noise, shared stripes, several suspects.
BUSY = {"jobs": 500, "closed_loop": True, "detail_day": None, "scan_files": 200,
        "probe_seconds": 600, "sampler_seconds": 7200, "incidents_per_week": 2.0, "transfers_per_day": 6.0}  # fmt: skip
FACILITY = replace(LAPTOP, name="who", **BUSY)


@dataclass(frozen=True)
class Asked:
    """One run: what each other job really cost it, by key, and what was said. `recorded` are the keys that left any
    record. `loudest` is the peer's answer."""

    run: str
    alone: float
    sick: bool
    true: dict[str, float]
    recorded: frozenset[str]
    said: tuple[Blame, ...]
    harm: float
    loudest: str | None

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.true.items(), key=lambda item: item[1], default=("", 0.0))

    @property
    def is_harmed(self) -> bool:
        """By h of METHODS section 9: similar runs that differ much leave a small slowdown unseen."""
        least = self.harm if np.isfinite(self.harm) else 0.0
        return self.worst[1] >= max(HARM_SHARE * self.alone, least) and not self.sick

    @property
    def first(self) -> str | None:
        return self.said[0].suspect.party.key if self.said else None

    @property
    def named(self) -> str | None:
        return next((each.suspect.party.key for each in self.said if each.probability >= NAMED_FROM), None)


def blames(snapshot: Snapshot, view: Any) -> tuple[tuple[Blame, ...], float, str | None]:
    """As `who JOB` finds them; the peer's answer too."""
    similar = similar_runs(view, snapshot)
    found = read_conditions(similar, snapshot)
    result = explain(view, found).result
    assert isinstance(result, WhyOutcome)
    run = with_usual_of_verdict(read_slowed_run(snapshot, similar, found.filesystem), result)
    loud = max(run.suspects, key=lambda each: each.read_bytes + each.write_bytes, default=None)
    harm = run.harm_seconds if np.isfinite(run.harm_seconds) else float("inf")
    return blame(run), harm, loud.party.key if loud else None


def without_job_stats(snapshot: Snapshot) -> Snapshot:
    pinned = dict(snapshot.pinned)
    pinned["job_operations"] = pinned["job_operations"]._replace(uris=())
    return Snapshot(snapshot.root, pinned, snapshot.facility)


def simulated(preset: Preset, seed: int) -> Iterator[tuple[str, list[Asked]]]:
    with tempfile.TemporaryDirectory() as folder:
        made = generate(preset, Path(folder) / "facility", seed=seed, watch=count_jobs)
        with contextlib.redirect_stdout(io.StringIO()):
            lake = ingest_simulated(made, Path(folder) / "lake")
        with lake.snapshot() as snapshot, without_job_stats(snapshot) as bare:
            for mode, seen in (("job_stats", snapshot), ("logs only", bare)):
                yield mode, list(asked(seen, made.truth, mode == "job_stats"))


def truth_of(path: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Runs that have a log, and what others cost each."""
    with duckdb.connect() as con:
        found = con.sql(f"""SELECT id, job_id, start_ns, alone_seconds, observed_seconds,
                incidents_seconds > 0.5 * others_seconds AND incidents_seconds > 0.05 * alone_seconds FROM '{path}'
            WHERE kind = 'run' AND darshan AND observed_seconds > 0 ORDER BY id""").fetchall()
        costs: dict[str, dict[str, float]] = {}
        for run, key, seconds in con.sql(f"SELECT id, name, value FROM '{path}' WHERE kind = 'cost'").fetchall():
            costs.setdefault(run, {})[key] = seconds
    names = ("id", "job_id", "start_ns", "alone", "observed", "sick")
    return [dict(zip(names, row, strict=True)) for row in found], costs


def asked(snapshot: Snapshot, truth: Path, counted: bool) -> Iterator[Asked]:
    """Every run, as `who --from --to` over the whole time finds it. Harmed runs that it does not take for slowed, as
    those that changed their own pattern, are asked about one by one; of the rest nobody is named."""
    runs, costs = truth_of(truth)
    began = time.process_time()
    found = read_activity(snapshot, None, (min(run["start_ns"] for run in runs) - NS, 2**62))
    print(f"asked in {time.process_time() - began:.1f} s of processor time: {len(found.slowed)} of {found.runs} slowed")
    slowed = {run.start_ns // NS: run for run in found.slowed}
    for run in runs:
        said = slowed.get(run["start_ns"] // NS)
        true = costs.get(run["id"], {})
        recorded = frozenset(key for key in true if counted or "." not in key)
        if said is None:
            harmed = not run["sick"] and max(true.values(), default=0.0) >= HARM_SHARE * run["alone"]
            yield asked_alone(snapshot, run, true, recorded) if harmed else Asked(
                run["id"], run["alone"], run["sick"], true, recorded, (), float("inf"), None
            )  # fmt: skip
            continue
        loud = max(said.suspects, key=lambda each: each.read_bytes + each.write_bytes, default=None)
        loudest = loud.party.key if loud is not None else None
        yield Asked(run["id"], run["alone"], run["sick"], true, recorded, blame(said), said.harm_seconds, loudest)


def asked_alone(snapshot: Snapshot, run: dict[str, Any], true: dict[str, float], recorded: frozenset[str]) -> Asked:
    """A run that changed its own pattern is compared with others by its verdict, as `who JOB` does; of a job of several
    runs this one is meant."""
    logs = snapshot.frame("applications", ("log_digest", "start_ns"), {"job_id": run["job_id"]})
    nearest = int(np.abs(logs.ints("start_ns") - run["start_ns"]).argmin())
    digest, day = str(logs.text("log_digest").tolist()[nearest]), utc_day(int(logs.ints("start_ns")[nearest]))
    try:
        said, harm, loudest = blames(snapshot, view_of_run(snapshot, digest, day))
    except IoweatherError:
        said, harm, loudest = (), float("inf"), None
    return Asked(run["id"], run["alone"], run["sick"], true, recorded, said, harm, loudest)


def right(one: Asked) -> bool:
    """Naming one who cost it as much as the worst, within a tenth, is right too; so is silence about who left no
    trace."""
    if one.worst[0] not in one.recorded:
        return one.named is None or one.true.get(one.named, 0.0) >= HARM_SHARE * one.alone
    return is_worst(one, one.named)


def is_worst(one: Asked, key: str | None) -> bool:
    return key is not None and one.true.get(key, 0.0) >= 0.9 * one.worst[1]


def report(name: str, runs: list[Asked]) -> None:
    runs = [one for one in runs if not one.sick]
    harmed = [one for one in runs if one.is_harmed]
    known = [one for one in harmed if one.worst[0] in one.recorded]
    named = [one for one in harmed if one.named is not None]
    calm = [one for one in runs if not one.is_harmed]
    wrong = [one for one in calm if one.named is not None]
    peer = np.mean([is_worst(one, one.loudest) for one in known]) if known else np.nan
    print(
        f"| {name} | {len(runs)} | {len(harmed)} | {len(known)} | {np.mean([right(o) for o in known]):.3f} | "
        f"{np.mean([is_worst(o, o.first) for o in known]):.3f} | "
        f"{np.mean([right(o) for o in named]) if named else float('nan'):.3f} | {peer:.3f} | "
        f"{len(wrong)} of {len(calm)} |"
    )


def calibration(runs: list[Asked]) -> None:
    """Of all pairs of a run and a job beside it: the probability that was said, and how often it did cost h / 2."""
    runs = [one for one in runs if not one.sick]
    pairs = [
        (each.probability, one.true.get(each.suspect.party.key, 0.0) >= one.harm / 2)
        for one in runs
        for each in one.said
    ]
    if not pairs:
        return
    said, true = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    print("\n| probability said | pairs | mean | share that cost h / 2 |\n|---|---|---|---|")
    for low, high in itertools.pairwise((0.0, 0.05, 0.3, NAMED_FROM, 0.9, 0.99, 1.01)):
        inside = (said >= low) & (said < high)
        if inside.any():
            shares = f"{said[inside].mean():.2f} | {true[inside].mean():.2f}"
            print(f"| {low:.2f} - {min(high, 1):.2f} | {inside.sum()} | {shares} |")
    print(f"\nBrier score {np.mean((said - true) ** 2):.3f}, of the base rate {true.mean() * (1 - true.mean()):.3f}")
    covered = [each.low <= one.true.get(each.suspect.party.key, 0.0) <= each.high
               for one in runs for each in one.said if each.probability >= NAMED_FROM]  # fmt: skip
    if covered:
        print(f"90% intervals of seconds held the true ones in {np.mean(covered):.2f} of {len(covered)}")


def testbed(folder: Path, every: int, *, layout: bool, counted: bool) -> None:
    from ioweather.ui.cli.main import run as command
    from verdict import made_lake  # a module of this folder

    truth = json.loads((folder / "truth.json").read_text())
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        lake = made_lake(folder, Path(place), layout=layout)
        if counted:
            table = job_operations_of(folder, Path(place))
            mapped = ["--as", "job_operations", "--select", str(table.with_suffix(".sql")), str(table)]
            assert command(["ingest", "--lake", str(lake), "--raw", "--workers", "1", *mapped]) == 0
        beside = [run for run in truth["runs"] if run["culprits"]]
        others = [run for run in truth["runs"] if not run["culprits"]]
        found = list(_asked_testbed(lake, [*beside, *others[::every]]))
    harmed = [(run, named) for run, named in found if run["label"] in ("system", "both") and run["culprits"]]
    right_ones = sum(bool(named) and named[0] in run["culprits"] for run, named in harmed)
    calm = [(run, named) for run, named in found if not run["culprits"]]
    wrong = [(run["job_id"], named) for run, named in calm if named]
    kinds = f"{'targets in logs' if layout else 'no targets in logs'}{', job_stats' if counted else ''}"
    print(f"{kinds}: competitor named first in {right_ones} of {len(harmed)} harmed runs; of {len(calm)} runs without "
          f"a competitor somebody is named in {len(wrong)}: {wrong}")  # fmt: skip
    print("  missed:", [run["job_id"] for run, named in harmed if not named or named[0] not in run["culprits"]])


def _asked_testbed(lake: Path, runs: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[int | None]]]:
    with ExitStack() as until:
        source = DataSource(lake, until)
        snapshot = source.snapshot
        for run in runs:
            view = view_in(source, {}, str(run["job_id"]), "keep")
            said, _, _ = blames(snapshot, view)
            yield run, [each.suspect.party.job_id for each in said if each.probability >= NAMED_FROM]


def job_operations_of(folder: Path, place: Path) -> Path:
    """Bytes per job and target as servers would count them, in a form that `ingest --select` reads."""
    table = place / "job_operations.csv"
    lines = ["start_ns,interval_ns,job_key,job_id,target,operation,bytes,count"]
    for line in (folder / "job_targets.csv").read_text().splitlines()[1:]:
        job, _, start, end, target, read, written = line.split(",")
        for operation, size in (("read", int(read)), ("write", int(written))):
            if size:
                lines.append(
                    f"{start},{int(end) - int(start)},{job},{job},{target},{operation},{size},{size // 2**20 + 1}"
                )
    table.write_text("\n".join(lines) + "\n")
    table.with_suffix(".sql").write_text(
        "SELECT start_ns, interval_ns, job_key, job_id, operation, bytes, count, target AS component, 'mfs' AS system, "
        "'ost' AS component_kind, 0 AS quality FROM input"
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("simulated", "testbed"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[201])
    parser.add_argument("--preset", default="laptop", help="what is simulated otherwise, as laptop-noisy, laptop-hard")
    parser.add_argument(
        "--every", type=int, default=1, help="of the testbed's runs without a competitor, each so many-th"
    )
    given = parser.parse_args()
    if given.what == "testbed":
        for layout, counted in ((True, False), (False, False), (True, True)):
            testbed(given.folder, given.every, layout=layout, counted=counted)
        return
    print(
        "| facility | runs asked | harmed | by one with a record | of these named right | first in rank right "
        "| right of the named | loudest right | named though nobody harmed |\n|---|---|---|---|---|---|---|---|---|"
    )
    modes: dict[str, list[Asked]] = {}
    for seed in given.seeds:
        began = time.process_time()
        for mode, runs in simulated(replace(preset_named(given.preset), **BUSY), seed):
            report(f"{seed}, {mode}", runs)
            modes.setdefault(mode, []).extend(runs)
        print(f"seed {seed}: {time.process_time() - began:.0f} s of processor time", flush=True)
    for mode, runs in modes.items():
        report(f"all, {mode}", runs)
    for mode, runs in modes.items():
        print(f"\n### {mode}")
        calibration(runs)


if __name__ == "__main__":
    main()
