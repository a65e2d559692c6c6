"""Was it you or the system? Every run's verdict against the seconds that it really lost, by the same inequalities.

Each is asked about as `ioweather why` does: the same similar runs, sampling interval and conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioweather.advice.verdict.judge import HARM_MADS, HARM_SHARE, KINDS, Verdict, judge
from ioweather.core.errors import DataUnavailable
from ioweather.derive.jobs.file_records import rows_of
from ioweather.store.snapshot import Snapshot
from ioweather.studies.job.view import JobView
from ioweather.workflows.score.items import Evidence, Item
from ioweather.workflows.similar_runs import conditions, similar_runs

# A verdict takes about a second.
_MOST_RUNS = 60
_SURE = 0.9
_WORDS = {"usual": "the usual time", "system": "the system's seconds", "own": "the run's own seconds"}
# A program with fewer runs has no usual time, and no truth of who made it late.
_LEAST_RUNS = 8


@dataclass(frozen=True)
class Truth:
    """Of one run: the class and B, S, J of METHODS section 9 on the true seconds."""

    kind: str
    usual: float
    system: float
    own: float


@dataclass(frozen=True)
class Judged:
    """A run: what is true of it, and what was said."""

    truth: Truth
    said: Verdict


def true_kinds(runs: list[dict[str, Any]]) -> dict[tuple[int, int], Truth]:
    """By job and instance, for programs with runs enough.

    B is what the usual pattern takes alone plus what the system usually adds, for a program of the size it had then; S
    what the system added here beyond that; J what its own change cost. The rest is nobody's: where its files
    happened to lie, how equal runs differ, what happened on its own nodes. The MAD is that of runs to which neither
    happened.
    """
    by_program: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in runs:
        if row["observed_seconds"]:
            by_program.setdefault((row["name"], row["details"].get("filesystem", "")), []).append(row)
    found = {}
    for members in by_program.values():
        if len(members) <= _LEAST_RUNS:
            continue
        system = np.array([row["incidents_seconds"] + row["others_seconds"] for row in members])
        alone = np.array([row["alone_seconds"] for row in members])
        observed = np.array([row["observed_seconds"] for row in members])
        size = np.array([row["details"].get("size", 1.0) for row in members])
        usually = size * float(np.median(system / size))
        by_system, own = system - usually, np.array([row["own_seconds"] for row in members])
        base = size * float(np.median(alone / size)) + usually
        quiet = (np.abs(own) < HARM_SHARE * base) & (by_system < HARM_SHARE * base)
        late = observed - base
        mad = float(np.median(np.abs(late[quiet] - np.median(late[quiet])))) if quiet.any() else 0.0
        harm = np.maximum(HARM_SHARE * base, HARM_MADS * mad)
        for i, row in enumerate(members):
            kind = _kind(float(late[i]), float(by_system[i]), float(own[i]), float(harm[i]))
            key = row["job_id"], row["details"]["instance"]
            found[key] = Truth(kind, float(base[i]), float(by_system[i]), float(own[i]))
    return found


def _kind(late: float, by_system: float, own: float, harm: float) -> str:
    if late < harm:
        return "normal"
    kinds = {(True, False): "system", (False, True): "you", (True, True): "both", (False, False): "unexplained"}
    return kinds[by_system >= harm, own >= harm]


def judged_runs(evidence: Evidence) -> list[Judged]:
    """Runs of programs that ran often enough, with truth and verdict."""
    if "judged" not in evidence.kept:
        evidence.kept["judged"] = _judged_runs(evidence)
    judged: list[Judged] = evidence.kept["judged"]
    return judged


def _judged_runs(evidence: Evidence) -> list[Judged]:
    truth = true_kinds([row for row in evidence.truth("run") if row["darshan"]])
    with evidence.lake.snapshot() as snapshot:
        views = [(truth[key], view) for key, view in _views(snapshot) if key in truth]
        chosen = views[:: max(1, -(-len(views) // _MOST_RUNS))]
        return [
            Judged(true, judge(conditions(similar_runs(view, snapshot), snapshot).pool, 0)) for true, view in chosen
        ]


def _views(snapshot: Snapshot) -> Iterator[tuple[tuple[int, int], JobView]]:
    """Each log by itself, with its job and which of the job's logs it is."""
    applications, metrics, files = (snapshot.frame(name) for name in ("applications", "job_io", "files"))
    order = np.lexsort([np.asarray(applications.array("start_ns")), np.asarray(applications.array("job_id"))])
    applications = applications.take(order)
    metrics = metrics.take(rows_of(metrics.text("log_digest"), applications.text("log_digest")))
    log_of_file = rows_of(applications.text("log_digest"), files.text("log_digest"))
    instances: dict[int, int] = {}
    for row, job in enumerate(applications.array("job_id").tolist()):
        instance = instances[job] = instances.get(job, -1) + 1
        mine = files.take(np.flatnonzero(log_of_file == row))
        yield (job, instance), JobView(f"job {job}", applications.take([row]), mine, metrics.take([row]))


def verdicts(evidence: Evidence) -> Iterator[Item]:
    known = judged_runs(evidence)
    if not known:
        raise DataUnavailable("no program has runs enough")
    given = [run for run in known if run.said.kind != "unknown"]
    yield Item("runs with a verdict", 1.0, len(given) / len(known), 0.5, "rate", note=f"of {len(known)} runs")
    if given:
        right = sum(run.said.kind == run.truth.kind for run in given)
        yield Item("right among those given", 1.0, right / len(given), 0.15, "rate", note=f"{right} of {len(given)}")
        yield Item("balanced accuracy of those given", 1.0, balanced_accuracy(given), 0.15, "rate")
    for kind in KINDS:
        mine = [run for run in known if run.truth.kind == kind]
        if mine:
            share = sum(run.said.kind == kind for run in mine) / len(mine)
            yield Item(f"truly {kind}, and said so", 1.0, share, 0.5, "rate", note=f"of {len(mine)}")
    yield from _sure_accusations(known)


def _sure_accusations(known: list[Judged]) -> Iterator[Item]:
    sure = [run for run in known if run.said.kind in ("you", "both") and run.said.probability >= _SURE]
    if sure:
        right = sum(run.truth.kind in ("you", "both") for run in sure)
        note = f"{right} of {len(sure)}"
        yield Item("right among those accused at 90% or more", 1.0, right / len(sure), 0.12, "rate", note=note)


def balanced_accuracy(given: list[Judged]) -> float:
    """Mean over the kinds there are of the share that was said right."""
    shares = []
    for kind in KINDS:
        said = [run.said.kind == kind for run in given if run.truth.kind == kind]
        if said:
            shares.append(sum(said) / len(said))
    return float(np.mean(shares))


def attribution(evidence: Evidence) -> Iterator[Item]:
    """Seconds by the system and by the run itself, of runs of which at least a tenth of the time is at stake."""
    known = [run for run in judged_runs(evidence) if run.said.system is not None and run.said.own is not None]
    for name in ("usual", "system", "own") if known else ():
        held = [said.low <= getattr(run.truth, name) <= said.high for run in known if (said := getattr(run.said, name))]
        name, rate = f"90% ranges of {_WORDS[name]} that hold", sum(held) / len(held)
        yield Item(name, 0.9, rate, 0.05, "difference", "ratio", f"{len(held)} runs")
    for label, true, said in (
        ("system", [r.truth.system for r in known], [r.said.system.value for r in known if r.said.system]),
        ("the run itself", [r.truth.own for r in known], [r.said.own.value for r in known if r.said.own]),
    ):
        took = np.array([run.said.io_seconds for run in known])
        planted, found = np.array(true), np.array(said)
        matters = np.abs(planted) > 0.1 * took if len(known) else np.zeros(0, bool)
        if matters.any():
            error = float(np.median(np.abs(found - planted)[matters] / took[matters]))
            name = f"seconds by {label}: median error over the run's time"
            yield Item(name, 0.0, error, 0.15, "difference", "ratio", f"{int(matters.sum())} runs")
