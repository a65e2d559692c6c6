"""Score card: ingest a simulated facility, answer questions about it, and compare with the planted truth.

    ioweather simulate --preset laptop --out facility
    python benchmarks/score.py facility [--question NAME ...] [--json]

A question is a function that is decorated with `question`. Exit code 1: an answer is worse than the stored baseline.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

import duckdb
import numpy as np

from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.results import Exhibit
from ioweather.core.units import HOUR_NS, MINUTE_NS, format_value
from ioweather.diagnosis.similar_runs import read_conditions, similar_runs
from ioweather.diagnosis.time_model import HARM_MADS, HARM_SHARE
from ioweather.diagnosis.verdict import KINDS, Verdict, judge
from ioweather.facts.job_metrics import rows_of
from ioweather.job_io.view import JobView
from ioweather.lake.lake import Lake, Snapshot
from ioweather.planning.forecast_model import ForecastOutcome
from ioweather.simulate.generate import Generated, read_manifest
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import preset_named
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.source import ask
from planted_facility import planted_laws, planted_numbers, planted_scans

Measure: TypeAlias = Literal["factor", "difference", "rate"]


@dataclass(frozen=True)
class Item:
    """One number, planted and recovered.

    `error` is |recovered / planted - 1| for a factor, |recovered - planted| for a difference, and the distance to 1 for
    a rate (recall, precision). `allowed` is the error up to which the answer is good.
    """

    name: str
    planted: float | None
    recovered: float | None
    allowed: float
    measure: Measure = "factor"
    unit: str = ""
    note: str = ""

    @property
    def error(self) -> float | None:
        if self.recovered is None or self.planted is None or not math.isfinite(self.recovered):
            return None
        if self.measure == "factor":
            return abs(self.recovered / self.planted - 1.0) if self.planted else None
        return abs(self.planted - self.recovered)

    @property
    def good(self) -> bool:
        return self.error is not None and self.error <= self.allowed


@dataclass(frozen=True)
class Evidence:
    """A lake made from a simulated facility, and its truth."""

    made: Generated
    lake: Lake

    @cached_property
    def _truth(self) -> list[dict[str, Any]]:
        with duckdb.connect(":memory:") as con:
            found = con.execute("SELECT * FROM read_parquet(?)", [str(self.made.truth)])
            names = [column[0] for column in found.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        for row in rows:
            row["details"] = json.loads(row["details"]) if row["details"] else {}
        return rows

    def truth(self, kind: str) -> list[dict[str, Any]]:
        """Return the planted rows of a kind."""
        return [row for row in self._truth if row["kind"] == kind]

    @cached_property
    def planted(self) -> dict[str, float]:
        return planted_numbers(self.made)

    @cached_property
    def judged(self) -> list[Judged]:
        """Verdicts on runs of programs that ran often enough, with the truth."""
        return judged_runs(self)

    def _exhibit(self, exhibit_id: str) -> Exhibit:
        return make_exhibits(self.lake, [exhibit_id], params={})[0]

    def table(self, exhibit_id: str, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table of an exhibit."""
        table = next(table for table in self._exhibit(exhibit_id).tables if table.name == name)
        return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]

    def estimates(self, exhibit_id: str) -> dict[str, float | None]:
        """Return the values of an exhibit by name."""
        return {estimate.name: estimate.value for estimate in self._exhibit(exhibit_id).estimates}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.lake.snapshot() as snapshot:
            return [tuple(row) for row in snapshot.query(sql).fetchall()]


Question: TypeAlias = Callable[[Evidence], Iterator[Item]]
QUESTIONS: dict[str, Question] = {}


def question(function: Question) -> Question:
    """Register a question under the name of its function."""
    QUESTIONS[function.__name__] = function
    return function


def _share(name: str, hits: int, total: int, allowed: float, of: str = "") -> Item:
    """Return a rate with what it was counted of."""
    return Item(name, 1.0, hits / total, allowed, "rate", note=of or f"{hits} of {total}")


# A program with fewer runs has no usual time, and no truth about what made it late.
_MIN_RUNS = 8


@question
def io_time(evidence: Evidence) -> Iterator[Item]:
    """D of every log against the seconds that its run really spent."""
    truth = {(row["job_id"], row["details"]["instance"]): row for row in evidence.truth("run") if row["darshan"]}
    logs = evidence.rows(
        "SELECT a.job_id, row_number() OVER (PARTITION BY a.job_id ORDER BY a.start_ns) - 1, j.io_seconds, "
        "j.read_bytes, j.write_bytes FROM applications a JOIN job_io j USING (log_digest)"
    )
    found = [(truth[job, instance], values) for job, instance, *values in logs if (job, instance) in truth]
    yield Item("logs", float(len(truth)), float(len(logs)), 0.0, unit="count")
    planted = sum(row["read_bytes"] + row["write_bytes"] for row in truth.values())
    moved = sum(read + write for _, (_, read, write) in found)
    yield Item("bytes of runs", float(planted), float(moved), 1e-9, unit="bytes")
    errors = [
        abs(seconds / row["observed_seconds"] - 1)
        for row, (seconds, _, _) in found
        if seconds is not None and row["observed_seconds"]
    ]
    if errors:
        yield Item("I/O time, 95% of runs within", 0.0, float(np.quantile(errors, 0.95)), 0.02, "difference", "ratio")


@question
def accounting(evidence: Evidence) -> Iterator[Item]:
    """Logs whose job is known."""
    rows = evidence.rows("SELECT count(*), count(*) FILTER (job_id IN (SELECT raw_job_id FROM jobs)) FROM applications")
    logs, matched = rows[0]
    if logs:
        yield Item("logs whose job is in the accounts", 1.0, matched / logs, 0.05, "rate")


@question
def benchmark(evidence: Evidence) -> Iterator[Item]:
    """Speeds of the benchmark's phases."""
    planted = {row["name"]: row["value"] for row in evidence.truth("benchmark")}
    found = dict(evidence.rows("SELECT phase, coalesce(bytes_per_s, ops_per_s) FROM benchmarks"))
    errors = [abs(found[name] / value - 1) for name, value in planted.items() if found.get(name)]
    if planted:
        yield Item("phases", float(len(planted)), float(len(errors)), 0.0, unit="count")
        yield Item("speeds, largest error", 0.0, max(errors, default=None), 0.001, "difference", "ratio")


@question
def growth(evidence: Evidence) -> Iterator[Item]:
    """Growth of files between two scans."""
    (files_before, bytes_before), (files_after, bytes_after) = planted_scans(evidence.made)
    found = evidence.estimates("car11.table3")
    yield Item("growth of files", files_after / files_before - 1, found["files_growth"], 0.001, unit="ratio")
    note = "the exhibit counts capacity, in blocks"
    yield Item("growth of bytes", bytes_after / bytes_before - 1, found["used_growth"], 0.01, unit="ratio", note=note)


@question
def association(evidence: Evidence) -> Iterator[Item]:
    """Correlation of run time and system load among runs of one program, as far as the system was the reason."""
    rows = evidence.table("mad17.table3", "coefficients")
    by_program: dict[str, list[tuple[float, float]]] = {}
    for row in evidence.truth("run"):
        system = row["incidents_seconds"] + row["others_seconds"]
        name = f"{row['name'].replace('-', '')}-{row['nprocs']}"
        by_program.setdefault(name, []).append((row["observed_seconds"], system))
    planted, found = [], []
    for name, pairs in by_program.items():
        own = [r["value"] for r in rows if r["measure"] == "Spearman" and str(r["group"]).startswith(f"{name}-")]
        if own and len(pairs) >= _MIN_RUNS:
            ranks = np.array(pairs).argsort(axis=0).argsort(axis=0)
            planted.append(float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1]))
            found.append(max(map(float, own)))
    if found:
        name, note = "rank correlation of time and load, mean of groups", "volumes say less than the seconds lost"
        values = (float(np.mean(planted)), float(np.mean(found)))
        yield Item(name, *values, 0.3, "difference", note=f"{len(found)} groups; {note}")


_VERBS = ("read", "write")
# Incidents of targets, servers and the metadata server, but not of the network.
_OF_COMPONENTS = ("slow_ost", "raid_rebuild", "full_ost", "failed_oss", "mds_overload")


@question
def volumes(evidence: Evidence) -> Iterator[Item]:
    """Rates, and the imbalance of the targets."""
    rates, planted = evidence.estimates("pat19.fig4"), evidence.planted
    for verb in _VERBS:
        rate = rates[f"mean_rate_{verb}"]
        per_minute = None if rate is None else rate * 60
        yield Item(f"{verb} per minute", planted[f"{verb}_bytes_per_minute"], per_minute, 0.02, unit="bytes")
        variation = rates[f"variation_{verb}"]
        yield Item(f"variation of {verb}", planted[f"{verb}_cov_percent"] / 100, variation, 0.05, unit="ratio")
    totals = evidence.estimates("pat19.fig10")
    for verb in _VERBS:
        values = (planted[f"{verb}_target_max_over_min"], totals[f"max_over_min_{verb}"])
        yield Item(f"busiest over idlest target, {verb}", *values, 0.05, unit="factor")


@question
def phases(evidence: Evidence) -> Iterator[Item]:
    """Lengths and distances of phases of high load."""
    found, planted = evidence.estimates("pat19.fig7"), evidence.planted
    for verb in _VERBS:
        for name, key in (("length", "high_phase_minutes"), ("interarrival", "high_phase_distance_minutes")):
            value = found[f"mean_{name}_{verb}"]
            yield Item(f"{verb} high phases, mean {name}", planted[f"{verb}_{key}"] * 60, value, 0.1, unit="seconds")


@question
def correlations(evidence: Evidence) -> Iterator[Item]:
    """Autocorrelation of the load."""
    found, planted = evidence.estimates("pat19.fig9"), evidence.planted
    for verb in _VERBS:
        for window in (1, 5, 25):
            values = planted[f"{verb}_autocorrelation_{window}min"], found.get(f"auto_{verb}[{window} min]")
            yield Item(f"{verb} with itself a window later, {window} min", *values, 0.05, "difference")


@question
def parallelism(evidence: Evidence) -> Iterator[Item]:
    """Number of targets that work together."""
    found, planted = evidence.estimates("pat19.fig11"), evidence.planted
    for verb in _VERBS:
        yield Item(f"mean degree, {verb}", planted.get(f"{verb}_parallelism_mean"), found[f"mean_{verb}"], 0.1)


@question
def metadata(evidence: Evidence) -> Iterator[Item]:
    """Counts of opens and closes."""
    found, planted = evidence.estimates("pat19.fig13"), evidence.planted
    for name in ("open", "close"):
        yield Item(f"{name}s", planted[f"{name}_ops"], found[f"{name}s"], 0.02, unit="count")


@question
def night(evidence: Evidence) -> Iterator[Item]:
    """The nightly scan reads at 2 am, local time."""
    rows = [tuple(row.values()) for row in evidence.table("pat19.fig5", "hours")]
    reads = [(rate, hour) for hour, verb, rate, *_ in rows if verb == "read" and rate is not None]
    busiest = float(max(reads, key=lambda pair: pair[0])[1])
    yield Item("busiest hour of reading", 2.0, busiest, 0.0, "difference", note="backups and transfers compete")


@question
def sick_components(evidence: Evidence) -> Iterator[Item]:
    """Incidents of components against all that `ioweather health` lists."""
    with evidence.lake.snapshot() as snapshot:
        columns = ("component", "start_ns", "end_ns")
        found = list(snapshot.frame("events", columns, {"kind": "component_health"}).records())
    planted = evidence.truth("incident")
    incidents = [row for row in planted if row["name"] in _OF_COMPONENTS]
    if not incidents:
        return
    filesystems = {filesystem.name for filesystem in evidence.lake.facility.filesystems}

    def matches(episode: dict[str, Any], incident: dict[str, Any]) -> bool:
        # A narrow network is shared by all targets.
        named = filesystems if incident["name"] == "network_cap" else {incident["component"]}
        return episode["component"] in named and _overlap(episode, incident)

    seen = [[episode for episode in found if matches(episode, incident)] for incident in incidents]
    yield _share("incidents of components that were found", sum(map(bool, seen)), len(incidents), 0.3)
    explained = sum(any(matches(episode, incident) for incident in planted) for episode in found)
    name, share = "components named that an incident explains", explained / len(found) if found else None
    yield Item(name, 1.0, share, 0.3, "rate", note=f"of {len(found)}")
    yield from _delay(seen, incidents, 3.0, "from the first minute at the limit")


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["start_ns"] < other["end_ns"] and one["end_ns"] > other["start_ns"])


def _delay(
    seen: Sequence[Sequence[Mapping[str, Any]]], planted: Sequence[Mapping[str, Any]], allowed: float, note: str = ""
) -> Iterator[Item]:
    """Mean time from the start of an incident to its first episode."""
    delays = [
        max(0, min(episode["start_ns"] for episode in episodes) - row["start_ns"]) / HOUR_NS
        for episodes, row in zip(seen, planted, strict=True)
        if episodes
    ]
    if delays:
        yield Item("hours until noticed, mean", 0.0, sum(delays) / len(delays), allowed, "difference", note=note)


_FELT_BY_ALL = ("mds_overload", "network_cap")
# Mean stretch that a person notices.
_FELT = 1.5


@question
def distributions(evidence: Evidence) -> Iterator[Item]:
    """Each series of the sampler against the law it was drawn from."""
    laws = planted_laws(evidence.made)
    if not laws:
        return
    labels = {f"{op} {_size_label(size)}": law for (op, size), law in laws.items()}
    rows = evidence.table("don15.fig6", "winners")
    found = [(row, law) for row in rows for label, law in labels.items() if str(row["sample"]).endswith(label)]
    if not found:
        return
    law = found[0][1]
    normal = sum(row["head"] == "Normal" for row, _ in found) / len(found)
    power = sum(row["tail_aic"] == "Power Law" for row, _ in found) / len(found)
    yield Item("heads called Normal", 1.0, normal, 0.2, "difference", note=f"of {len(found)} series")
    yield Item("tails called Power Law (AIC)", 1.0, power, 0.2, "rate", note=f"of {len(found)} series")
    shares = [row["tail_share"] for row, _ in found]
    note = "the planted law is that of the quiet system; load adds to its tail"
    yield Item("share in the tail, median", law["tail_ratio"], median(shares), 0.05, "difference", "ratio", note)
    alphas = [row["alpha"] for row, _ in found if row["alpha"] is not None]
    yield Item("exponent of the tail, median", law["alpha"], median(alphas) if alphas else None, 0.15)
    pivots = [row["pivot"] / each["pivot_seconds"] for row, each in found]
    yield Item("pivot over the planted one, median", 1.0, median(pivots), 0.1)


def _size_label(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


@question
def independence(evidence: Evidence) -> Iterator[Item]:
    """Correlation between targets; here they do not slow down together."""
    if planted_laws(evidence.made):
        found = evidence.estimates("don15.maxorder").get("target_correlation")
        yield Item("correlation between targets", 0.0, found, 0.15, "difference")


@question
def slowdown(evidence: Evidence) -> Iterator[Item]:
    """Metadata phases of the benchmark stretch every metadata operation by a known factor."""
    phases = {row["name"]: row for row in evidence.truth("benchmark") if row["name"].startswith("mdtest")}
    if not phases:
        return
    found = evidence.estimates("kun19.fig3")
    ratios = []
    for name, row in phases.items():
        planted = row["observed_seconds"] / row["details"]["free_seconds"]
        ends = tuple(f" {op}]" for op in ("create", "stat", "delete"))
        values = [v for label, v in found.items() if label.startswith(f"slowdown[{name}, ") and label.endswith(ends)]
        ratios += [value / planted for value in values if value is not None]
    if ratios:
        name = "slowdown in metadata phases over the planted one, median"
        yield Item(name, 1.0, median(ratios), 0.1, note=f"{len(ratios)} values")


@question
def episodes(evidence: Evidence) -> Iterator[Item]:
    """Incidents that affect all runs against episodes of the probes."""
    found = [
        {"start_ns": row["start"], "end_ns": row["end"] or 2**62}
        for row in evidence.table("kun19.episodes", "episodes")
    ]
    incidents = [row for row in evidence.truth("incident") if row["name"] in _FELT_BY_ALL]
    # On a quiet system a narrow network delays no run.
    planted = [row for row in incidents if row["value"] is not None and row["value"] >= _FELT]
    if not planted:
        return
    seen = [[episode for episode in found if _overlap(episode, row)] for row in planted]
    yield _share("incidents of all that were found", sum(map(bool, seen)), len(planted), 0.3)
    causes = [*evidence.truth("incident"), *evidence.truth("benchmark")]
    right = sum(any(_overlap(episode, cause) for cause in causes) for episode in found)
    if found:
        yield _share("episodes with a planted cause", right, len(found), 0.3, f"of {len(found)}")
    yield from _delay(seen, planted, 4.0)


@question
def forecast(evidence: Evidence) -> Iterator[Item]:
    """The forecast of the last day's load: no worse than 'as usual', with honest intervals."""
    outcome = ask("forecast", evidence.lake).result
    for horizon in outcome.horizons if isinstance(outcome, ForecastOutcome) else ():
        label = f"{horizon.horizon_ns // MINUTE_NS} min ahead"
        if horizon.skill.value is not None:
            lost = max(0.0, -horizon.skill.value)
            name = f"errors beyond those of 'as usual', {label}"
            yield Item(name, 0.0, lost, 0.05, "difference", "ratio", f"skill {horizon.skill.value:+.2f}")
        if horizon.coverage is not None:
            yield Item(f"intervals that held, {label}", 0.9, horizon.coverage, 0.05, "difference", "ratio")


# A verdict takes about a second.
_MAX_RUNS = 60
_SURE = 0.9
_WORDS = {"usual": "the usual time", "system": "the system's seconds", "own": "the run's own seconds"}


@dataclass(frozen=True)
class Truth:
    """Truth about one run: the class, and B, S, J of METHODS section 9 from the true seconds."""

    kind: str
    usual: float
    system: float
    own: float


@dataclass(frozen=True)
class Judged:
    """A run with its truth and its verdict."""

    truth: Truth
    said: Verdict


def true_kinds(runs: list[dict[str, Any]]) -> dict[tuple[int, int], Truth]:
    """Return the truth by job and instance, for programs with enough runs.

    B is what the usual pattern takes alone plus what the system usually adds, for the program's size at the time; S is
    what the system added beyond that; J what the run's own change cost. The rest has no cause: the placement of its
    files, the scatter of equal runs, events on its own nodes. The MAD is that of runs with neither S nor J.
    """
    by_program: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in runs:
        if row["observed_seconds"]:
            by_program.setdefault((row["name"], row["details"].get("filesystem", "")), []).append(row)
    found = {}
    for members in by_program.values():
        if len(members) <= _MIN_RUNS:
            continue
        system = np.array([row["incidents_seconds"] + row["others_seconds"] for row in members])
        alone, observed, own = (
            np.array([row[name] for row in members]) for name in ("alone_seconds", "observed_seconds", "own_seconds")
        )
        size = np.array([row["details"].get("size", 1.0) for row in members])
        usually = size * float(np.median(system / size))
        by_system = system - usually
        base = size * float(np.median(alone / size)) + usually
        quiet = (np.abs(own) < HARM_SHARE * base) & (by_system < HARM_SHARE * base)
        late = observed - base
        mad = float(np.median(np.abs(late[quiet] - np.median(late[quiet])))) if quiet.any() else 0.0
        harm = np.maximum(HARM_SHARE * base, HARM_MADS * mad)
        kinds = {(True, False): "system", (False, True): "you", (True, True): "both", (False, False): "unexplained"}
        for i, row in enumerate(members):
            kind = "normal" if late[i] < harm[i] else kinds[bool(by_system[i] >= harm[i]), bool(own[i] >= harm[i])]
            key = row["job_id"], row["details"]["instance"]
            found[key] = Truth(kind, float(base[i]), float(by_system[i]), float(own[i]))
    return found


def judged_runs(evidence: Evidence) -> list[Judged]:
    """Judge runs of programs that ran often enough."""
    truth = true_kinds([row for row in evidence.truth("run") if row["darshan"]])
    with evidence.lake.snapshot() as snapshot:
        views = [(truth[key], view) for key, view in _views(snapshot) if key in truth]
        chosen = views[:: max(1, -(-len(views) // _MAX_RUNS))]
        return [
            Judged(true, judge(read_conditions(similar_runs(view, snapshot), snapshot).pool, 0))
            for true, view in chosen
        ]


def _views(snapshot: Snapshot) -> Iterator[tuple[tuple[int, int], JobView]]:
    """Yield each log by itself, with its job and its number among the job's logs."""
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


@question
def verdicts(evidence: Evidence) -> Iterator[Item]:
    """Verdicts against the truth."""
    known = evidence.judged
    if not known:
        raise DataUnavailable("no program has runs enough")
    given = [run for run in known if run.said.kind != "unknown"]
    yield _share("runs with a verdict", len(given), len(known), 0.5, f"of {len(known)} runs")
    if given:
        yield _share("right among those given", sum(run.said.kind == run.truth.kind for run in given), len(given), 0.15)
        yield Item("balanced accuracy of those given", 1.0, balanced_accuracy(given), 0.15, "rate")
    for kind in KINDS:
        mine = [run.said.kind == kind for run in known if run.truth.kind == kind]
        if mine:
            yield _share(f"truly {kind}, and said so", sum(mine), len(mine), 0.5, f"of {len(mine)}")
    sure = [run for run in known if run.said.kind in ("you", "both") and run.said.probability >= _SURE]
    if sure:
        right = sum(run.truth.kind in ("you", "both") for run in sure)
        yield _share("right among those accused at 90% or more", right, len(sure), 0.12)


def balanced_accuracy(given: list[Judged]) -> float:
    """Return the mean over the kinds of the share of right verdicts."""
    shares = []
    for kind in KINDS:
        said = [run.said.kind == kind for run in given if run.truth.kind == kind]
        if said:
            shares.append(sum(said) / len(said))
    return float(np.mean(shares))


@question
def attribution(evidence: Evidence) -> Iterator[Item]:
    """Seconds by the system and by the run itself, for runs with at least a tenth of their time at stake."""
    known = [run for run in evidence.judged if run.said.system is not None and run.said.own is not None]
    for name in ("usual", "system", "own") if known else ():
        held = [said.low <= getattr(run.truth, name) <= said.high for run in known if (said := getattr(run.said, name))]
        name, rate = f"90% ranges of {_WORDS[name]} that hold", sum(held) / len(held)
        yield Item(name, 0.9, rate, 0.05, "difference", "ratio", f"{len(held)} runs")
    took = np.array([run.said.io_seconds for run in known])
    for label, name in (("system", "system"), ("the run itself", "own")):
        planted = np.array([getattr(run.truth, name) for run in known])
        found = np.array([getattr(run.said, name).value for run in known])
        matters = np.abs(planted) > 0.1 * took
        if matters.any():
            error = float(np.median(np.abs(found - planted)[matters] / took[matters]))
            name = f"seconds by {label}: median error over the run's time"
            yield Item(name, 0.0, error, 0.15, "difference", "ratio", f"{int(matters.sum())} runs")


# An error is worse than before if it grew by more than scatter in the last digits explains.
_WORSE_BY, _WORSE_RATIO = 0.005, 1.05


@dataclass(frozen=True)
class Line:
    """One item of one question; without an item, `note` is the reason."""

    question: str
    item: Item | None
    note: str = ""
    before: float | None = None  # error in the stored baseline

    @property
    def error(self) -> float | None:
        return self.item.error if self.item is not None else None

    @property
    def worse(self) -> bool:
        if self.before is None:
            return False
        return self.error is None or self.error > max(self.before * _WORSE_RATIO, self.before + _WORSE_BY)

    @property
    def key(self) -> str:
        return f"{self.question}: {self.item.name}" if self.item is not None else self.question


@dataclass(frozen=True)
class ScoreCard:
    """All lines of one facility."""

    preset: str
    seed: int
    days: int
    lines: tuple[Line, ...]
    baseline: bool  # there is a stored one for this facility

    @property
    def scored(self) -> list[Line]:
        return [line for line in self.lines if line.item is not None]

    @property
    def good(self) -> int:
        return sum(line.item.good for line in self.scored if line.item is not None)

    @property
    def worse(self) -> list[Line]:
        return [line for line in self.lines if line.worse]

    def jsonable(self) -> dict[str, Any]:
        """Return the card as JSON."""
        lines = []
        for line in self.lines:
            body: dict[str, Any] = {"question": line.question, "note": line.note}
            if (item := line.item) is not None:
                body |= {name: getattr(item, name) for name in ("name", "planted", "recovered", "unit", "error")}
                body |= {name: getattr(item, name) for name in ("allowed", "good", "note")}
                body |= {"error_before": line.before, "worse": line.worse}
            lines.append(body)
        return {
            "preset": self.preset,
            "seed": self.seed,
            "days": self.days,
            "good": self.good,
            "scored": len(self.scored),
            "baseline": self.baseline,
            "worse": [line.key for line in self.worse],
            "lines": lines,
        }


def score(directory: Path, *, questions: Sequence[str] = (), lake_dir: Path | None = None) -> ScoreCard:
    """Ingest the facility in `directory` into a new lake of its own, and ask the questions."""
    made = read_manifest(directory)
    wanted = list(questions) or sorted(QUESTIONS)
    for name in wanted:
        if name not in QUESTIONS:
            raise UsageError(f"There is no question {name!r}.", hint=f"There are: {', '.join(sorted(QUESTIONS))}.")
    evidence = Evidence(made, ingest_simulated(made, lake_dir or directory / "lake"))
    usual = made.days == preset_named(made.preset).days
    before = stored_baseline().get(f"{made.preset} seed {made.seed}", {}) if usual else {}
    lines: list[Line] = []
    for name in wanted:
        items, why = _asked(name, evidence)
        lines += [Line(name, item, before=before.get(f"{name}: {item.name}")) for item in items]
        if not items:
            lines.append(Line(name, None, why or "this facility has nothing of the kind"))
    lines += _no_longer_measured(before, wanted, {line.key for line in lines})
    return ScoreCard(made.preset, made.seed, made.days, tuple(lines), bool(before))


def _no_longer_measured(
    before: Mapping[str, float | None], wanted: Sequence[str], measured: Collection[str]
) -> Iterator[Line]:
    """Items of the baseline that the card lacks count as worse: otherwise a renamed item would not be compared."""
    for key, error in before.items():
        question, _, item = key.partition(": ")
        if question in wanted and key not in measured:
            yield Line(
                question, None, f"{item} is in the baseline and no longer measured", 1.0 if error is None else error
            )


def _asked(name: str, evidence: Evidence) -> tuple[list[Item], str]:
    """Return the items of a question, or the reason why there are none."""
    try:
        return list(QUESTIONS[name](evidence)), ""
    except DataUnavailable as error:
        return [], f"the data do not allow it: {error}"


def stored_baseline() -> dict[str, dict[str, float | None]]:
    """Return the stored errors by facility and item."""
    text = Path(__file__).with_name("score_baseline.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, float | None]] = json.loads(text)
    return stored


def print_card(card: ScoreCard) -> None:
    """Print one line for each item, then what is worse than the baseline."""
    for line in card.lines:
        if (item := line.item) is None:
            print(f"{line.question}: {line.note}")
            continue
        planted, found = ("-" if v is None else format_value(v, item.unit) for v in (item.planted, item.recovered))
        error = "-" if item.error is None else f"{item.error:.3f}" if item.measure != "factor" else f"{item.error:.1%}"
        mark = "worse" if line.worse else "" if item.good else "off"
        print(f"{line.question:18} {item.name:72} {planted:>12} {found:>12} {error:>8} {mark}".rstrip())
    print(f"\n{card.good} of {len(card.scored)} within what is allowed ({card.preset}, seed {card.seed}).")
    if not card.baseline:
        print("There is no stored baseline for this facility.")
    elif card.worse:
        print("Worse than the stored baseline: " + "; ".join(line.key for line in card.worse) + ".")
    else:
        print("Nothing is worse than the stored baseline.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--question", dest="questions", action="append", default=[], help="only this; may be repeated")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    given = parser.parse_args()
    try:
        card = score(given.directory, questions=given.questions)
    except UsageError as error:
        parser.error(str(error))
    if given.json:
        print(json.dumps(card.jsonable(), indent=1))
    else:
        print_card(card)
    return 1 if card.worse else 0


if __name__ == "__main__":
    sys.exit(main())
