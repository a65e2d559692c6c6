"""How good the verdict is on real runs with known causes: leave one out, against simpler ways, with intervals.

    python benchmarks/verdict.py ../shared/data/causes ../shared/data/contention

A folder holds Darshan logs (job_*.darshan), diskstats.log (epoch ns, then a line of /proc/diskstats) and truth.json.
Labels are by harm, not by exposure: B is the median time of runs in which nothing was planted, h = max(0.15 B, 2 MAD of
the runs with the usual request size); a run in small requests has J = median of such runs without background - B; what
background adds is the rest. `--mad group` takes the MAD of all runs instead, causes and all.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.advice.verdict.group_states import BYTES, group_states
from ioweather.advice.verdict.judge import KINDS, LEAST_PROBABILITY, GroupRuns, Verdict, judge
from ioweather.core.contracts import ReadContext
from ioweather.derive.jobs.io_spans import SPAN_COLUMNS, io_spans
from ioweather.derive.system.grid import SystemGrid
from ioweather.derive.system.job_system import job_system
from ioweather.workflows.ingest.reading import Reading, read_batch

SECTOR = 512
REPLICATES = 2000


@dataclass
class Runs:
    group: GroupRuns
    labels: np.ndarray
    harm: float
    verdicts: list[Verdict]

    @property
    def answered(self) -> np.ndarray:
        return np.array([v.kind != "unknown" for v in self.verdicts])

    @property
    def likeliest(self) -> np.ndarray:
        return np.array([v.likeliest for v in self.verdicts])

    @property
    def probability(self) -> np.ndarray:
        return np.array([v.probability for v in self.verdicts])


def device_grid(folder: Path) -> SystemGrid:
    """Counters of the device as amounts per sampling interval, on an even grid of the median interval."""
    lines = [line.split() for line in (folder / "diskstats.log").read_text().splitlines() if line.strip()]
    times = np.array([int(line[0]) for line in lines])
    step = round(float(np.median(np.diff(times))) / 1e8) * 10**8
    columns = {"read_ops": (4, 1), "read_bytes": (6, SECTOR), "write_ops": (8, 1), "write_bytes": (10, SECTOR)}
    stamps = np.arange(-(-times[0] // step) * step, times[-1] + 1, step)
    values = {}
    for name, (place, factor) in columns.items():
        counter = np.array([int(line[place]) for line in lines], float) * factor
        at = np.interp((stamps - times[0]).astype(float), (times - times[0]).astype(float), counter - counter[0])
        values[name] = np.diff(at)
    return SystemGrid(int(stamps[0]), int(step), values)


def load(folder: Path, which_mad: str) -> Runs:
    logs = sorted(folder.glob("*.darshan"))
    _, frames = read_batch([(path, path.stem, 0) for path in logs], Reading(context=ReadContext()))
    tables = {table: made[0] for (_, table), made in frames.items()}
    applications = tables["applications"]
    start = applications.array("start_ns")
    truth = json.loads((folder / "truth.json").read_text())
    known = [next(t for t in truth if t["start_ns"] <= s <= t["end_ns"]) for s in start]
    spans = io_spans(applications, tables["files"].select(SPAN_COLUMNS))
    system = job_system(device_grid(folder), start, applications.array("end_ns"), spans)
    group = group_states(tables["job_io"], system)
    labels, harm = harm_labels(group.io_seconds, known, which_mad)
    return Runs(group, labels, harm, [judge(group, i) for i in range(len(labels))])


def harm_labels(seconds: np.ndarray, truth: list[dict[str, Any]], which_mad: str) -> tuple[np.ndarray, float]:
    size = np.array([t.get("transfer", "1m") for t in truth])
    kind = np.array([t.get("kind", "system" if t["background_depth"] else "normal") for t in truth])
    base = float(np.median(seconds[kind == "normal"]))
    spread = seconds if which_mad == "group" else seconds[size == "1m"]
    harm = max(0.15 * base, 2 * float(np.median(np.abs(spread - np.median(spread)))))
    labels = []
    for i in range(len(seconds)):
        alone = float(np.median(seconds[(size == size[i]) & (kind == "you")])) if size[i] != "1m" else base
        own, system = (seconds[i] - base, 0.0) if kind[i] in ("you", "normal") else (alone - base, seconds[i] - alone)
        if seconds[i] - base < harm:
            labels.append("normal")
        else:
            labels.append("both" if min(own, system) >= harm else "system" if system >= harm else "you")
    return np.array(labels), harm


def balanced(labels: np.ndarray, said: np.ndarray) -> float:
    """Mean over the classes there are of the share found."""
    return float(np.mean([np.mean(said[labels == kind] == kind) for kind in KINDS if (labels == kind).any()]))


def neighbours(feature: np.ndarray, labels: np.ndarray, k: int = 5) -> np.ndarray:
    """The simpler way: the commonest label of the k runs nearest in one measure, the run itself left out."""
    said = []
    for i in range(len(labels)):
        distance = np.abs(feature - feature[i])
        distance[i] = np.inf
        near = labels[np.argsort(distance, kind="stable")[:k]]
        said.append(max(KINDS, key=lambda kind: ((near == kind).sum(), -KINDS.index(kind))))
    return np.array(said)


def alone(runs: Runs, blamed: str) -> np.ndarray:
    """Run time alone tells slow from usual, not why."""
    return np.array([
        "normal" if v.usual is None or v.io_seconds - v.usual.value < (v.harm_seconds or 0.0) else blamed
        for v in runs.verdicts
    ])  # fmt: skip


def by_rate(runs: Runs) -> np.ndarray:
    """The system's state alone tells exposure."""
    return np.array([
        "system" if v.system is not None and v.system.value >= (v.harm_seconds or 0.0) else "normal"
        for v in runs.verdicts
    ])  # fmt: skip


def line(runs: Runs) -> np.ndarray:
    """One straight line of time through others' rate over all runs of the group, and the inequalities."""
    rate, seconds = runs.group.states[BYTES], runs.group.io_seconds
    said = []
    for i in range(len(seconds)):
        keep = np.arange(len(seconds)) != i
        slope, offset = np.polyfit(rate[keep], seconds[keep], 1)
        base = offset + slope * np.median(rate[keep])
        spread = float(np.median(np.abs(seconds[keep] - np.median(seconds[keep]))))
        harm = max(0.15 * base, 2 * spread)
        system = offset + slope * rate[i] - base
        own = seconds[i] - base - system
        said.append(
            "normal" if seconds[i] - base < harm else "both" if min(system, own) >= harm
            else "system" if system >= harm else "you"
        )  # fmt: skip
    return np.array(said)


def paired(labels: np.ndarray, ours: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """Difference of balanced accuracy with its 90% interval, runs of each class resampled."""
    rng = np.random.default_rng(1)
    classes = [np.flatnonzero(labels == kind) for kind in KINDS if (labels == kind).any()]
    found = []
    for _ in range(REPLICATES):
        rows = np.concatenate([rng.choice(c, len(c)) for c in classes])
        found.append(balanced(labels[rows], ours[rows]) - balanced(labels[rows], other[rows]))
    low, high = np.quantile(found, (0.05, 0.95))
    return balanced(labels, ours) - balanced(labels, other), float(low), float(high)


def report(name: str, runs: Runs) -> None:
    labels, said, answered = runs.labels, runs.likeliest, runs.answered
    counts = {kind: int((labels == kind).sum()) for kind in KINDS}
    print(f"\n### {name}: {len(labels)} runs, h = {runs.harm:.3f} s, {counts}\n")
    wrong = int((said[answered] != labels[answered]).sum())
    score = balanced(labels[answered], said[answered])
    print(
        f"answered {answered.mean():.2f}; balanced accuracy of the answered {score:.3f} ({wrong} wrong); of all by the "
        f"likeliest {balanced(labels, said):.3f}\n"
    )
    print("| class | runs | answered | right of the answered |\n|---|---|---|---|")
    for kind in KINDS:
        mine = labels == kind
        if mine.any():
            right = np.mean(said[mine & answered] == kind) if (mine & answered).any() else float("nan")
            print(f"| {kind} | {mine.sum()} | {(mine & answered).sum()} | {right:.2f} |")
    print("\n| simpler way | its balanced accuracy | ours less it, answered runs (90% interval) |\n|---|---|---|")
    rate = runs.group.states[BYTES]
    slow = [(alone(runs, blamed), blamed) for blamed in KINDS[1:]]
    best, blamed = max(slow, key=lambda pair: balanced(labels, pair[0]))
    ways = {
        f"run time alone: slow is '{blamed}' (the best choice)": best,
        "others' rate alone: S >= h is 'system'": by_rate(runs),
        "one line through others' rate, same inequalities": line(runs),
        "run time, 5 nearest with their true causes known": neighbours(np.log(runs.group.io_seconds), labels),
        "others' rate, 5 nearest with their true causes known": neighbours(rate, labels),
    }
    for way, other in ways.items():
        value, low, high = paired(labels[answered], said[answered], other[answered])
        print(f"| {way} | {balanced(labels, other):.3f} | {value:+.3f} ({low:+.3f} to {high:+.3f}) |")


def together(sets: list[Runs]) -> None:
    """All four classes occur only in all runs together; the peers' choice is made anew for them."""
    labels, said, answered = (
        np.concatenate([getattr(runs, name) for runs in sets]) for name in ("labels", "likeliest", "answered")
    )
    score = balanced(labels[answered], said[answered])
    print(f"\n### All {len(labels)} runs together\n\nanswered {answered.mean():.2f}; balanced accuracy of the answered "
          f"{score:.3f}; of all by the likeliest {balanced(labels, said):.3f}\n")  # fmt: skip
    slow = [np.concatenate([alone(runs, blamed) for runs in sets]) for blamed in KINDS[1:]]
    ways = {
        "run time alone (the best choice)": max(slow, key=lambda other: balanced(labels, other)),
        "others' rate alone": np.concatenate([by_rate(runs) for runs in sets]),
    }
    print("| simpler way | its balanced accuracy | ours less it, answered runs (90% interval) |\n|---|---|---|")
    for way, other in ways.items():
        value, low, high = paired(labels[answered], said[answered], other[answered])
        print(f"| {way} | {balanced(labels, other):.3f} | {value:+.3f} ({low:+.3f} to {high:+.3f}) |")


def calibration(pairs: list[tuple[Verdict, str]]) -> None:
    """Of verdicts and what is true."""
    judged = [(said, label) for said, label in pairs if said.probabilities]
    p = np.array([said.probability for said, _ in judged])
    right = np.array([said.likeliest == label for said, label in judged])
    print("\n### Reliability, all runs together\n\n| probability | runs | mean | right |\n|---|---|---|---|")
    edges = (0.0, 0.5, LEAST_PROBABILITY, 0.9, 0.99, 1.01)
    for low, high in itertools.pairwise(edges):
        inside = (p >= low) & (p < high)
        if inside.any():
            shares = f"{p[inside].mean():.2f} | {right[inside].mean():.2f}"
            print(f"| {low:.2f} - {min(high, 1):.2f} | {inside.sum()} | {shares} |")
    print(f"\nBrier score of the likeliest: {np.mean((p - right) ** 2):.3f}")
    print("\n### Risk and coverage\n\n| least probability | coverage | wrong of the answered |\n|---|---|---|")
    for least in (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99):
        kept = p >= least
        print(f"| {least:.2f} | {kept.mean():.2f} | {1 - right[kept].mean():.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--mad", choices=("usual", "group"), default="usual")
    given = parser.parse_args()
    found = {folder.name: load(folder, given.mad) for folder in given.folders}
    for name, runs in found.items():
        report(name, runs)
    together(list(found.values()))
    calibration(
        [(said, label) for runs in found.values() for said, label in zip(runs.verdicts, runs.labels, strict=True)]
    )


if __name__ == "__main__":
    main()
