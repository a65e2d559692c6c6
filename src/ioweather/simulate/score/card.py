"""Score card: ingest a simulated facility, answer questions about it, and compare with the planted truth."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

import duckdb
import numpy as np

from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.outcomes import ForecastOutcome
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.diagnosis.similar_runs import conditions, similar_runs
from ioweather.diagnosis.verdict import HARM_MADS, HARM_SHARE, KINDS, Verdict, judge
from ioweather.facts.file_records import rows_of
from ioweather.job_io.view import JobView
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot
from ioweather.lake.workers import Serial, in_order
from ioweather.simulate.generate import Generated, read_manifest
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import preset_named
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.ask import ask

Measure: TypeAlias = Literal["factor", "difference", "rate"]


@dataclass(frozen=True)
class Item:
    """One number: planted and recovered.

    `error` is |recovered / planted - 1| for a factor, |recovered - planted| for a difference, and what is missing to 1
    for a rate (recall, precision). `allowed` is the error up to which the answer is good.
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
    # What several questions need and is made once, by name.
    kept: dict[str, Any] = field(default_factory=dict)

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
        return [row for row in self._truth if row["kind"] == kind]

    @cached_property
    def planted(self) -> dict[str, float]:
        return {row["name"]: row["value"] for row in self.truth("planted")}

    def exhibit(self, exhibit_id: str, **params: str) -> Exhibit:
        return make_exhibits(self.lake, [exhibit_id], params=params)[0]

    def estimates(self, exhibit_id: str) -> dict[str, float | None]:
        return {estimate.name: estimate.value for estimate in self.exhibit(exhibit_id).estimates}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.lake.snapshot() as snapshot:
            return [tuple(row) for row in snapshot.query(sql).fetchall()]


Question: TypeAlias = Callable[[Evidence], Iterator[Item]]


_LEAST_RUNS = 8


def io_time(evidence: Evidence) -> Iterator[Item]:
    """D of every log against the seconds that its run really spent."""
    truth = {(row["job_id"], row["details"]["instance"]): row for row in evidence.truth("run") if row["darshan"]}
    logs = evidence.rows(
        "SELECT a.job_id, a.start_ns, j.io_seconds, j.read_bytes, j.write_bytes FROM applications a "
        "JOIN job_io j USING (log_digest) ORDER BY a.job_id, a.start_ns"
    )
    place: dict[int, int] = {}
    errors, moved = [], 0
    for job_id, _, seconds, read, write in logs:
        instance = place.get(job_id, 0)
        place[job_id] = instance + 1
        row = truth.get((job_id, instance))
        if row is None:
            continue
        moved += read + write
        if seconds is not None and row["observed_seconds"]:
            errors.append(abs(seconds / row["observed_seconds"] - 1))
    yield Item("logs", float(len(truth)), float(len(logs)), 0.0, unit="count")
    planted = sum(row["read_bytes"] + row["write_bytes"] for row in truth.values())
    yield Item("bytes of runs", float(planted), float(moved), 1e-9, unit="bytes")
    if errors:
        yield Item("I/O time, 95% of runs within", 0.0, float(np.quantile(errors, 0.95)), 0.02, "difference", "ratio")


def accounting(evidence: Evidence) -> Iterator[Item]:
    rows = evidence.rows("SELECT count(*), count(*) FILTER (job_id IN (SELECT raw_job_id FROM jobs)) FROM applications")
    logs, matched = rows[0]
    if logs:
        yield Item("logs whose job is in the accounts", 1.0, matched / logs, 0.05, "rate")


def benchmark(evidence: Evidence) -> Iterator[Item]:
    planted = {row["name"]: row["value"] for row in evidence.truth("benchmark")}
    found = dict(evidence.rows("SELECT phase, coalesce(bytes_per_s, ops_per_s) FROM benchmarks"))
    errors = [abs(found[name] / value - 1) for name, value in planted.items() if found.get(name)]
    if planted:
        yield Item("phases", float(len(planted)), float(len(errors)), 0.0, unit="count")
        yield Item("speeds, largest error", 0.0, max(errors, default=None), 0.001, "difference", "ratio")


def growth(evidence: Evidence) -> Iterator[Item]:
    scans = {(row["id"], row["name"]): row for row in evidence.truth("scan")}
    before, after = scans["before", "all"], scans["after", "all"]
    found = evidence.estimates("car11.table3")
    yield Item("growth of files", after["value"] / before["value"] - 1, found["files_growth"], 0.001, unit="ratio")
    bytes_growth = after["details"]["bytes"] / before["details"]["bytes"] - 1
    note = "the exhibit counts capacity, in blocks"
    yield Item("growth of bytes", bytes_growth, found["used_growth"], 0.01, unit="ratio", note=note)


def association(evidence: Evidence) -> Iterator[Item]:
    """Runs of one program: does the time go with what the system did, as far as the system was the reason?"""
    coefficients = next(t for t in evidence.exhibit("mad17.table3").tables if t.name == "coefficients")
    rows = [dict(zip((c.name for c in coefficients.columns), row, strict=True)) for row in coefficients.rows]
    by_program: dict[str, list[tuple[float, float]]] = {}
    for row in evidence.truth("run"):
        system = row["incidents_seconds"] + row["others_seconds"]
        by_program.setdefault(f"{row['name'].replace('-', '')}-{row['nprocs']}", []).append(
            (row["observed_seconds"], system)
        )
    planted, found = [], []
    for name, pairs in by_program.items():
        own = [r["value"] for r in rows if r["measure"] == "Spearman" and str(r["group"]).startswith(f"{name}-")]
        if own and len(pairs) >= _LEAST_RUNS:
            planted.append(_rank_correlation(np.array(pairs)))
            found.append(max(float(str(value)) for value in own))
    if not found:
        return
    name, note = "rank correlation of time and load, mean of groups", "volumes say less than the seconds lost"
    values = (float(np.mean(planted)), float(np.mean(found)))
    yield Item(name, *values, 0.3, "difference", note=f"{len(found)} groups; {note}")


def _rank_correlation(pairs: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    ranks = pairs.argsort(axis=0).argsort(axis=0)
    return float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1])


_VERBS = ("read", "write")
# Of targets, servers and the metadata server; the network is none of them.
_OF_COMPONENTS = ("slow_ost", "raid_rebuild", "full_ost", "failed_oss", "mds_overload")


def volumes(evidence: Evidence) -> Iterator[Item]:
    rates, planted = evidence.estimates("pat19.fig4"), evidence.planted
    for verb in _VERBS:
        rate = rates[f"mean_rate_{verb}"]
        per_minute = None if rate is None else rate * 60
        yield Item(f"{verb} per minute", planted[f"{verb}_bytes_per_minute"], per_minute, 0.02, unit="bytes")
        variation = rates[f"variation_{verb}"]
        yield Item(f"variation of {verb}", planted[f"{verb}_cov_percent"] / 100, variation, 0.05, unit="ratio")
    totals = evidence.estimates("pat19.fig10")
    for verb in _VERBS:
        there = (planted[f"{verb}_target_max_over_min"], totals[f"max_over_min_{verb}"])
        yield Item(f"busiest over idlest target, {verb}", *there, 0.05, unit="factor")


def phases(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig7"), evidence.planted
    for verb in _VERBS:
        for name, key in (("length", "high_phase_minutes"), ("interarrival", "high_phase_distance_minutes")):
            value = found[f"mean_{name}_{verb}"]
            yield Item(f"{verb} high phases, mean {name}", planted[f"{verb}_{key}"] * 60, value, 0.1, unit="seconds")


def correlations(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig9"), evidence.planted
    for verb in _VERBS:
        for window in (1, 5, 25):
            there = planted[f"{verb}_autocorrelation_{window}min"], found.get(f"auto_{verb}[{window} min]")
            yield Item(f"{verb} with itself a window later, {window} min", *there, 0.05, "difference")


def parallelism(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig11"), evidence.planted
    for verb in _VERBS:
        yield Item(f"mean degree, {verb}", planted.get(f"{verb}_parallelism_mean"), found[f"mean_{verb}"], 0.1)


def metadata(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig13"), evidence.planted
    yield Item("opens", planted["open_ops"], found["opens"], 0.02, unit="count")
    yield Item("closes", planted["close_ops"], found["closes"], 0.02, unit="count")


def night(evidence: Evidence) -> Iterator[Item]:
    """The nightly scan reads at 2 am, local time."""
    hours = next(t for t in evidence.exhibit("pat19.fig5").tables if t.name == "hours")
    reads = [(row[2], int(str(row[0]))) for row in hours.rows if row[1] == "read" and row[2] is not None]
    busiest = float(max(reads, key=lambda pair: float(str(pair[0])))[1])
    yield Item("busiest hour of reading", 2.0, busiest, 0.0, "difference", note="backups and transfers compete")


def sick_components(evidence: Evidence) -> Iterator[Item]:
    found = _episodes(evidence)
    planted = evidence.truth("incident")
    incidents = [row for row in planted if row["name"] in _OF_COMPONENTS]
    if not incidents:
        return
    hit, delays = 0, []
    explained: set[int] = set()
    for incident in incidents:
        matching = [e for e in found if _same(e, incident, evidence)]
        explained.update(id(e) for e in matching)
        if matching:
            hit += 1
            first = min(e["start_ns"] for e in matching)
            delays.append(max(0, first - incident["start_ns"]) / HOUR_NS)
    explained.update(id(e) for e in found if any(_same(e, incident, evidence) for incident in planted))
    note = f"{hit} of {len(incidents)}"
    yield Item("incidents of components that were found", 1.0, hit / len(incidents), 0.3, "rate", note=note)
    share = sum(id(e) in explained for e in found) / len(found) if found else None
    yield Item("components named that an incident explains", 1.0, share, 0.3, "rate", note=f"of {len(found)}")
    if delays:
        mean = sum(delays) / len(delays)
        yield Item("hours until noticed, mean", 0.0, mean, 3.0, "difference", note="from the first minute at the limit")


def _episodes(evidence: Evidence) -> list[dict[str, Any]]:
    """All that `ioweather health` lists."""
    with evidence.lake.snapshot() as snapshot:
        columns = ("component", "start_ns", "end_ns")
        return list(snapshot.frame("events", columns, {"kind": "component_health"}).records())


def _same(episode: dict[str, Any], incident: dict[str, Any], evidence: Evidence) -> bool:
    if episode["end_ns"] <= incident["start_ns"] or episode["start_ns"] >= incident["end_ns"]:
        return False
    if incident["name"] == "network_cap":  # which all targets share
        return episode["component"] in {fs.name for fs in evidence.lake.facility.filesystems}
    return bool(episode["component"] == incident["component"])


_FELT_BY_ALL = ("mds_overload", "network_cap")
# Mean stretch that a person notices.
_FELT = 1.5


def distributions(evidence: Evidence) -> Iterator[Item]:
    """Each series of the sampler against the law it was drawn from."""
    laws = {(row["name"], int(row["value"])): row["details"] for row in evidence.truth("distribution")}
    if not laws:
        return
    winners = next(t for t in evidence.exhibit("don15.fig6").tables if t.name == "winners")
    labels = {f"{op} {_shown(size)}": law for (op, size), law in laws.items()}
    rows = [dict(zip((c.name for c in winners.columns), row, strict=True)) for row in winners.rows]
    found = [(row, law) for row in rows for label, law in labels.items() if str(row["sample"]).endswith(label)]
    if not found:
        return
    law = found[0][1]
    normal = sum(row["head"] == "Normal" for row, _ in found) / len(found)
    power = sum(row["tail_aic"] == "Power Law" for row, _ in found) / len(found)
    yield Item("heads called Normal", 1.0, normal, 0.2, "difference", note=f"of {len(found)} series")
    yield Item("tails called Power Law (AIC)", 1.0, power, 0.2, "rate", note=f"of {len(found)} series")
    shares = [float(str(row["tail_share"])) for row, _ in found]
    note = "the planted law is that of the quiet system; load adds to its tail"
    yield Item("share in the tail, median", law["tail_ratio"], median(shares), 0.05, "difference", "ratio", note)
    alphas = [float(str(row["alpha"])) for row, _ in found if row["alpha"] is not None]
    yield Item("exponent of the tail, median", law["alpha"], median(alphas) if alphas else None, 0.15)
    pivots = [float(str(row["pivot"])) / each["pivot_seconds"] for row, each in found]
    yield Item("pivot over the planted one, median", 1.0, median(pivots), 0.1)


def _shown(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def independence(evidence: Evidence) -> Iterator[Item]:
    """Do targets slow down together? Here they do not."""
    if evidence.truth("distribution"):
        found = evidence.estimates("don15.maxorder").get("target_correlation")
        yield Item("correlation between targets", 0.0, found, 0.15, "difference")


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


def episodes(evidence: Evidence) -> Iterator[Item]:
    """Incidents that everybody feels against episodes of the probes."""
    table = next(t for t in evidence.exhibit("kun19.episodes").tables if t.name == "episodes")
    rows = [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows]
    found = [(int(str(row["start"])), int(str(row["end"] or 2**62))) for row in rows]
    everybody = [row for row in evidence.truth("incident") if row["name"] in _FELT_BY_ALL]
    # On a quiet system a narrow network delays nobody.
    planted = [row for row in everybody if row["value"] is not None and row["value"] >= _FELT]
    if not planted:
        return
    seen = [[e for e in found if e[0] < row["end_ns"] and e[1] > row["start_ns"]] for row in planted]
    hit = sum(bool(each) for each in seen)
    yield Item(
        "incidents of all that were found", 1.0, hit / len(planted), 0.3, "rate", note=f"{hit} of {len(planted)}"
    )
    causes = [*evidence.truth("incident"), *evidence.truth("benchmark")]
    right = sum(any(e[0] < c["end_ns"] and e[1] > c["start_ns"] for c in causes) for e in found)
    if found:
        yield Item("episodes with a planted cause", 1.0, right / len(found), 0.3, "rate", note=f"of {len(found)}")
    delays = [
        max(0, min(e[0] for e in each) - row["start_ns"]) / HOUR_NS
        for each, row in zip(seen, planted, strict=True)
        if each
    ]
    if delays:
        yield Item("hours until noticed, mean", 0.0, sum(delays) / len(delays), 4.0, "difference")


def forecast(evidence: Evidence) -> Iterator[Item]:
    """What the last day's load was forecast as: no worse than 'as now' and 'as usual', in intervals that hold."""
    outcome = ask("forecast", evidence.lake).result
    for horizon in outcome.horizons if isinstance(outcome, ForecastOutcome) else ():
        label = f"{horizon.horizon_ns // MINUTE_NS} min ahead"
        if horizon.skill.value is not None:
            lost = max(0.0, -horizon.skill.value)
            name = f"errors beyond the better of 'as now' and 'as usual', {label}"
            yield Item(name, 0.0, lost, 0.05, "difference", "ratio", f"skill {horizon.skill.value:+.2f}")
        if horizon.coverage is not None:
            yield Item(f"intervals that held, {label}", 0.9, horizon.coverage, 0.05, "difference", "ratio")


# A verdict takes about a second.
_MOST_RUNS = 60
_SURE = 0.9
_WORDS = {"usual": "the usual time", "system": "the system's seconds", "own": "the run's own seconds"}
# A program with fewer runs has no usual time, and no truth of who made it late.


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


_QUESTION_FUNCTIONS: tuple[Question, ...] = (
    accounting,
    association,
    attribution,
    benchmark,
    correlations,
    distributions,
    episodes,
    forecast,
    growth,
    independence,
    io_time,
    metadata,
    night,
    parallelism,
    phases,
    sick_components,
    slowdown,
    verdicts,
    volumes,
)
QUESTIONS: dict[str, Question] = {function.__name__: function for function in _QUESTION_FUNCTIONS}

# An error is worse than before if it grew by more than chance in the last digits would explain.
_WORSE_BY, _WORSE_RATIO = 0.005, 1.05


@dataclass(frozen=True)
class Line:
    """One item of one question; without an item `note` says why there is none."""

    question: str
    item: Item | None
    note: str = ""
    before: float | None = None  # error in the stored baseline

    @property
    def worse(self) -> bool:
        error = self.item.error if self.item is not None else None
        if self.before is None:
            return False
        return error is None or error > max(self.before * _WORSE_RATIO, self.before + _WORSE_BY)

    @property
    def key(self) -> str:
        return f"{self.question}: {self.item.name}" if self.item is not None else self.question


@dataclass(frozen=True)
class ScoreCard:
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

    def errors(self) -> dict[str, float | None]:
        return {line.key: line.item.error for line in self.scored if line.item is not None}

    def jsonable(self) -> dict[str, Any]:
        lines = []
        for line in self.lines:
            body: dict[str, Any] = {"question": line.question, "note": line.note}
            if line.item is not None:
                item = line.item
                body |= {"name": item.name, "planted": item.planted, "recovered": item.recovered, "unit": item.unit,
                         "error": item.error, "allowed": item.allowed, "good": item.good,
                         "note": item.note, "error_before": line.before, "worse": line.worse}  # fmt: skip
            lines.append(body)
        made = {
            "preset": self.preset,
            "seed": self.seed,
            "days": self.days,
            "good": self.good,
            "scored": len(self.scored),
        }
        return made | {"baseline": self.baseline, "worse": [line.key for line in self.worse], "lines": lines}


def score(
    directory: Path,
    *,
    questions: Sequence[str] = (),
    lake_dir: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> ScoreCard:
    """Ingest the facility in `directory` into a lake of its own (made again), and ask the questions, in this process or
    each as a task of the executor."""
    made = read_manifest(directory)
    wanted = list(questions) or list(QUESTIONS)
    for name in wanted:
        if name not in QUESTIONS:
            raise UsageError(f"There is no question {name!r}.", hint=f"There are: {', '.join(QUESTIONS)}.")
    lake = ingest_simulated(made, lake_dir or directory / "lake", executor=executor, progress=progress)
    evidence = Evidence(made, lake)
    usual = made.days == preset_named(made.preset).days
    before = stored_baseline().get(f"{made.preset} seed {made.seed}", {}) if usual else {}
    lines: list[Line] = []
    progress(0, len(wanted), wanted[0])
    answers = in_order(executor or Serial(), _asked, ((name, evidence) for name in wanted))
    for place, (items, why) in enumerate(answers):
        name = wanted[place]
        progress(place + 1, len(wanted), wanted[place + 1] if place + 1 < len(wanted) else "")
        lines += [Line(name, item, before=before.get(f"{name}: {item.name}")) for item in items]
        if not items:
            lines.append(Line(name, None, why or "this facility has nothing of the kind"))
    lines += _no_longer_measured(before, wanted, {line.key for line in lines})
    return ScoreCard(made.preset, made.seed, made.days, tuple(lines), bool(before))


def _no_longer_measured(
    before: Mapping[str, float | None], wanted: Sequence[str], measured: Collection[str]
) -> Iterator[Line]:
    """What the baseline has and the card has not counts as worse: an item that was renamed would go unwatched."""
    for key, error in before.items():
        question, _, item = key.partition(": ")
        if question in wanted and key not in measured:
            yield Line(
                question, None, f"{item} is in the baseline and no longer measured", 1.0 if error is None else error
            )


def _asked(name: str, evidence: Evidence) -> tuple[list[Item], str]:
    """The items of a question, and why there are none."""
    try:
        return list(QUESTIONS[name](evidence)), ""
    except DataUnavailable as error:
        return [], f"the data do not allow it: {error}"


def stored_baseline() -> dict[str, dict[str, float | None]]:
    """Errors by facility and item, as they were when the baseline was stored."""
    text = files("ioweather.simulate.score").joinpath("baseline.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, float | None]] = json.loads(text)
    return stored
