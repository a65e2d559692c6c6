"""How good the verdict is where everything is known: simulated facilities, seed by seed and all together.

    python benchmarks/simulated_verdict.py --seeds 101 102 103 104 105
    python benchmarks/simulated_verdict.py --preset cluster --seeds 101
    python benchmarks/simulated_verdict.py --all --preset laptop-hard --seeds 511

At most 60 runs are asked about, by the path of `why`. With `--all` it is every run of a program that ran often, with
the conditions of all runs found in one pass, by the minute: eight times the runs in half the time.

Truth are the inequalities of the method on the true seconds. The peer says what the time alone can: slow is system.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.stats import binom

from ioweather.core import choices
from ioweather.core.units import MINUTE_NS
from ioweather.diagnosis.comparison_pool import make_pool, select_runs, sync_counts
from ioweather.diagnosis.similar_runs import FILE_COLUMNS, read_runs, read_system_states
from ioweather.diagnosis.verdict import KINDS, judge
from ioweather.facts.system_activity import Servers
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import preset_named
from score import Evidence, Judged, balanced_accuracy, judged_runs, true_kinds
from verdict import calibration


def judged(preset: str, seed: int, every: bool) -> list[Judged]:
    with tempfile.TemporaryDirectory() as folder:
        made = generate(preset_named(preset), Path(folder) / "facility", seed=seed)
        lake = ingest_simulated(made, Path(folder) / "lake")
        evidence = Evidence(made, lake)
        return judged_in_one_pass(evidence) if every else judged_runs(evidence)


def judged_in_one_pass(evidence: Evidence) -> list[Judged]:
    truth = true_kinds([row for row in evidence.truth("run") if row["darshan"]])
    with evidence.lake.snapshot() as snapshot:
        days = set(snapshot.pinned["job_io"].days())
        runs = read_runs(snapshot, "", days)
        files = snapshot.frame("files", FILE_COLUMNS, days=days)
        runs = runs.with_columns(sync_count=sync_counts(runs, files))
        name = choices.busiest_filesystem(snapshot)
        assert name is not None
        servers = Servers(name, choices.traffic_kind(snapshot, {"filesystem": name}), MINUTE_NS)
        system, _ = read_system_states(snapshot, runs, files, servers)
    found, seen = [], Counter[int]()
    for row in np.argsort(runs.ints("start_ns"), kind="stable").tolist():
        job = int(runs.array("job_id")[row])
        true = truth.get((job, seen[job]))
        seen[job] += 1
        if true is not None:
            rows, group = select_runs(runs, row)
            found.append(Judged(true, judge(make_pool(runs.take(rows), system.take(rows), group), 0)))
    return found


def line(name: str, runs: list[Judged]) -> None:
    given = [run for run in runs if run.said.kind != "unknown"]
    cells = []
    for kind in KINDS:
        mine = [run for run in runs if run.truth.kind == kind]
        answered = [run for run in mine if run.said.kind != "unknown"]
        right = sum(run.said.kind == kind for run in answered)
        cells.append(f"{right} of {len(answered)} of {len(mine)}")
    errors = [error(runs, which) for which in ("system", "own")]
    held = [in_range(runs, which) for which in ("usual", "system", "own")]
    sure = surely_accused(runs)
    accused = f"{sum(map(is_right, sure))} of {len(sure)}"
    low, high = between(given)
    found = (
        f"{len(given) / len(runs):.2f} | {balanced_accuracy(given):.3f} ({low:.2f} to {high:.2f}) | {alone(given):.3f}"
    )
    print(f"| {name} | {len(runs)} | {found} | {' | '.join([*cells, accused, *held, *errors])} |")


def surely_accused(runs: list[Judged]) -> list[Judged]:
    return [run for run in runs if run.said.kind in ("you", "both") and run.said.probability >= 0.9]


def is_right(run: Judged) -> bool:
    return run.truth.kind in ("you", "both")


def risk(weeks: list[list[Judged]]) -> tuple[float, float]:
    """Share of a week's sure accusations that are wrong, in the mean, and what it is at most with 95% confidence.

    The unit is the week, for runs of one share its mistakes: Hoeffding-Bentkus, as in Learn then Test (Angelopoulos et
    al. 2021).
    """
    sure, n = [surely_accused(runs) for runs in weeks], len(weeks)
    mean = float(np.mean([np.mean([not is_right(run) for run in runs]) if runs else 0.0 for runs in sure]))
    most = np.linspace(mean + 1e-4, 1 - 1e-4, 10_000)
    apart = (mean * np.log(mean / most) if mean else 0.0) + (1 - mean) * np.log((1 - mean) / (1 - most))
    chance = np.minimum(np.exp(-n * apart), np.e * binom.cdf(np.ceil(n * mean), n, most))
    return mean, float(most[np.argmax(chance <= 0.05)])


def between(given: list[Judged]) -> tuple[float, float]:
    """90% interval of the balanced accuracy: runs drawn again within each kind."""
    rng, kinds = np.random.default_rng(1), [[r for r in given if r.truth.kind == kind] for kind in KINDS]
    right = [np.array([run.said.kind == run.truth.kind for run in mine]) for mine in kinds if mine]
    drawn = np.mean([rng.choice(each, (2000, len(each))).mean(axis=1) for each in right], axis=0)
    low, high = np.quantile(drawn, [0.05, 0.95])
    return float(low), float(high)


def in_range(runs: list[Judged], which: str) -> str:
    """Share of true seconds in their 90% range; of J where the run changed something: else it is 0."""
    held = [said.low <= getattr(run.truth, which) <= said.high for run in runs
            if (said := getattr(run.said, which)) and (which != "own" or run.said.changed)]  # fmt: skip
    return f"{np.mean(held):.2f}" if held else "-"


def alone(given: list[Judged]) -> float:
    """The peer: a slow run is the system's, whatever else."""
    shares = []
    for kind in KINDS:
        mine = [run for run in given if run.truth.kind == kind]
        if mine:
            slow = [run.said.io_seconds - run.said.usual.value >= run.said.harm_seconds for run in mine]  # type: ignore[union-attr,operator]
            shares.append(np.mean([("system" if each else "normal") == kind for each in slow]))
    return float(np.mean(shares))


def error(runs: list[Judged], which: str) -> str:
    """Median error of the seconds over the run's time, where a tenth of it is at stake."""
    errors = []
    for run in runs:
        said = getattr(run.said, which)
        true = getattr(run.truth, which)
        if said is not None and abs(true) > 0.1 * run.said.io_seconds:
            errors.append(abs(said.value - true) / run.said.io_seconds)
    return f"{np.median(errors):.1%}" if errors else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", nargs="+", default=["laptop"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[101, 102, 103, 104, 105])
    parser.add_argument("--all", action="store_true", help="every run, with the conditions of all found in one pass")
    given = parser.parse_args()
    kinds = " | ".join(f"{kind}: right of answered of all" for kind in KINDS)
    print(
        f"| seed | runs | answered | balanced accuracy (90% interval) | time alone | {kinds} | sure accusations right "
        "| B in its range | S | J | S off | J off |"
    )
    print("|" + "---|" * (11 + len(KINDS)))
    weeks: list[list[Judged]] = []
    for preset in given.preset:
        for seed in given.seeds:
            weeks.append(judged(preset, seed, given.all))
            line(f"{preset} {seed}", weeks[-1])
    everything = [run for runs in weeks for run in runs]
    line("all", everything)
    mean, most = risk(weeks)
    print(
        f"\nOf a facility's sure accusations {mean:.1%} are wrong in the mean, with 95% confidence at most {most:.1%}."
    )
    calibration([(run.said, str(run.truth.kind)) for run in everything])


if __name__ == "__main__":
    main()
