"""The verdict in words: what the run did, its time against its like, what the system did meanwhile, what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.advice.verdict.group_states import OPERATIONS, TARGETS, group_states
from ioweather.advice.verdict.judge import LEAST_RUNS, GroupRuns, Seconds, Verdict, judge
from ioweather.advice.verdict.patterns import difference_words, patterns_of, usual_pattern
from ioweather.core.arrays import Floats
from ioweather.core.frames import Frame
from ioweather.core.results import (
    Answer,
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    ResultColumn,
    ResultTable,
)
from ioweather.core.units import GIB, format_seconds
from ioweather.derive.jobs.groups import program_names
from ioweather.derive.jobs.ratios import quotient
from ioweather.studies.job.summary import job_answer
from ioweather.studies.job.view import JobView

_MOST_NOTES: Final = 3
# What is said of how slow it was for others.
_SLOWDOWNS: Final = {
    "probe_data": "probe, data",
    "probe_targets": "probe, targets",
    "probe_metadata": "probe, metadata",
    "neighbours": "others' runs",
}
# What has a history of its own, whoever ran.
_IN_SERIES: Final = {"others read": "read_bytes", "others write": "write_bytes"}
_UMAMI_UNITS: Final = {
    "bytes_per_s": (GIB, "GiB/s"), "ops_per_s": (1.0, "1/s"), "ratio": (1.0, "x usual"), "count": (1.0, "count"),
}  # fmt: skip
_WORDS: Final = {
    "normal": "Normal",
    "system": "The system",
    "you": "You, not the system",
    "both": "Both you and the system",
    "unknown": "Unknown",
}


@dataclass(frozen=True, eq=False)
class Explained:
    """The run and its like: `job_io` rows with uid, exe and job id, what the system did during each, and which row is
    the run; `sick` says which components were not well meanwhile; `week_before` holds rates of the file system in the
    week before, by metric, over stretches as long as the run."""

    runs: Frame
    system: Frame
    this: int
    filesystem: str
    step_seconds: float
    sick: tuple[str, ...] = ()
    week_before: Mapping[str, Floats] = field(default_factory=dict)


def explain(view: JobView, row: int, found: Explained | None, reason: str = "") -> Answer:
    """`found` is None where there are no samples of the system at all; `reason` then says why."""
    question = f"Was it {view.label}, or the system?"
    did = FactGroup("What the run did", tuple(_did(view, row)))
    notes = job_answer(view).findings[:_MOST_NOTES]
    if found is None:
        why = reason or "no system data for this period"
        return Answer(
            question, f"Unknown: {why}.", (did,), findings=(Finding(_remedy(why), "undecided"), *notes),
            coverage=(Coverage(1, 0, "runs with samples of the system", {"no system data": 1}),),
        )  # fmt: skip
    states = group_states(found.runs, found.system)
    verdict = judge(states, found.this)
    groups = (
        did,
        FactGroup("Its time against its like", tuple(_against(found, states, verdict))),
        FactGroup(f"What {found.filesystem} did meanwhile", tuple(_meanwhile(found, states))),
        FactGroup("Where the time went", tuple(_split(verdict))),
    )
    return Answer(
        question, _headline(verdict), tuple(group for group in groups if group.facts),
        exhibits=tuple(_umami(found, states)),
        findings=(*_findings(found, verdict), *notes), caveats=tuple(_caveats(view, found, verdict)),
        coverage=(_coverage(found, verdict),),
    )  # fmt: skip


def _remedy(reason: str) -> str:
    return (
        f"Whether the system was busy cannot be told ({reason}): ingest its samples (iostat, LMT, Lustre, block "
        "devices) with `ioweather ingest`, and earlier logs of this program."
    )


def _did(view: JobView, row: int) -> Iterator[Fact]:
    job = view.job_io.take([row]).records()[0]
    about = view.applications.take([row])
    program = program_names(about)[0]
    yield Fact("program", program, "text", note=f"{job['nprocs']:,} processes")
    yield Fact("read", job["read_bytes"], "bytes")
    yield Fact("written", job["write_bytes"], "bytes")
    share = job["io_seconds"] / job["run_seconds"] if job["io_seconds"] and job["run_seconds"] else None
    note = f"{share:.0%} of the run" if share is not None else ""
    yield Fact("I/O time", job["io_seconds"], "seconds", share, note)
    yield Fact("rate", job["bytes_per_s"], "bytes_per_s")


def _headline(verdict: Verdict) -> str:
    if verdict.kind == "unknown":
        return f"Unknown: {verdict.reason}."
    assert verdict.usual is not None
    assert verdict.system is not None
    assert verdict.own is not None
    took, usual = format_seconds(verdict.io_seconds), format_seconds(verdict.usual.value)
    sure = f"{verdict.probability:.0%} sure" if verdict.probability < 0.995 else "more than 99% sure"
    parts = {
        "normal": "",
        "system": f"; the system explains {format_seconds(attributed(verdict)[0])} of that",
        "you": f"; the system explains {format_seconds(attributed(verdict)[0])} of the difference",
        "both": f"; the system explains {format_seconds(attributed(verdict)[0])}, the run itself "
        f"{format_seconds(attributed(verdict)[1])}",
    }[verdict.kind]
    return f"{_WORDS[verdict.kind]} ({sure}): its I/O took {took}, usually {usual}{parts}."


def attributed(verdict: Verdict) -> tuple[float, float]:
    """Seconds of the system and of the run: together the time beyond the usual. What the state predicts above that did
    not happen, and is nobody's."""
    assert verdict.usual is not None
    assert verdict.system is not None
    beyond = max(0.0, verdict.io_seconds - verdict.usual.value)
    system = min(max(0.0, verdict.system.value), beyond)
    return system, beyond - system


def _amount(seconds: Seconds) -> str:
    return format_seconds(max(0.0, seconds.value))


def _against(found: Explained, states: GroupRuns, verdict: Verdict) -> Iterator[Fact]:
    yield Fact("like runs", verdict.n, "count", note="same user, program, processes; bytes within 25%")
    if verdict.usual is None:
        return
    others = _others(states.io_seconds, found.this)
    slower = float(np.mean(others < verdict.io_seconds)) if len(others) else None
    yield Fact("usual I/O time", verdict.usual.value, "seconds", note="at the system's usual state")
    if slower is not None:
        yield Fact("this run", verdict.io_seconds, "seconds", slower, f"slower than {slower:.0%} of them")
    yield Fact("counts as harm from", verdict.harm_seconds, "seconds", note="15% or twice the group's MAD")


def _others(values: NDArray[Any], this: int) -> Floats:
    rest = np.delete(np.asarray(values, np.float64), this)
    return rest[np.isfinite(rest)]


def _measures(found: Explained, states: GroupRuns) -> dict[str, tuple[Floats, str]]:
    """What the system did and how slow it was for others, by what a person reads: values and unit."""
    during = found.system.floats("d_d_seconds")
    table = {
        f"others {verb}": (quotient(np.asarray(found.system.array(f"others_io_high_{verb}_bytes")), during),
                           "bytes_per_s")
        for verb in ("read", "write")
    }  # fmt: skip
    if TARGETS in states.states:
        table["on its targets"] = (states.states[TARGETS], "bytes_per_s")
    if OPERATIONS in states.states:
        table["others' operations"] = (states.states[OPERATIONS], "ops_per_s")
    for name, label in _SLOWDOWNS.items():
        if name in states.slowdowns and np.isfinite(states.slowdowns[name]).any():
            table[label] = (np.exp(states.slowdowns[name]), "ratio")
    if "sick_count" in found.system and np.any(found.system.array("sick_count")):
        table["sick components"] = (found.system.floats("sick_count"), "count")
    # Others are the system without the run, and the two are counted by different clocks: below zero there is nothing.
    return {label: (np.maximum(values, 0.0), unit) for label, (values, unit) in table.items()}


def _meanwhile(found: Explained, states: GroupRuns) -> Iterator[Fact]:
    for label, (values, unit) in _measures(found, states).items():
        here, others = float(values[found.this]), _others(values, found.this)
        if not np.isfinite(here):
            continue
        history = found.week_before.get(_IN_SERIES.get(label, ""), np.zeros(0))
        shares = {"the past week": _share_below(here, history), "the like runs": _share_below(here, others)}
        of, share = next(((of, share) for of, share in shares.items() if share is not None), ("", None))
        note = f"above {share:.0%} of {of}" if share is not None else ""
        value, shown_as = (f"{here:.2f}x usual", "text") if unit == "ratio" else (here, unit)
        yield Fact(label, value, shown_as, share, note)


def _share_below(value: float, others: Floats) -> float | None:
    return float(np.mean(others < value)) if len(others) >= LEAST_RUNS else None


def _split(verdict: Verdict) -> Iterator[Fact]:
    if verdict.usual is None or verdict.system is None or verdict.own is None:
        return
    system, own = attributed(verdict)
    usual = min(verdict.usual.value, verdict.io_seconds)
    parts = (
        ("as usual", usual, f"usual: {_range(verdict.usual)}"),
        ("the system", system, _range(verdict.system)),
        ("the run itself", own, f"the rest: {_range(verdict.own)}"),
    )
    for label, value, note in parts:
        yield Fact(label, value, "seconds", value / verdict.io_seconds if verdict.io_seconds else None, note)


def _range(part: Seconds) -> str:
    return f"{format_seconds(part.low)} to {format_seconds(part.high)}"


def _findings(found: Explained, verdict: Verdict) -> Iterator[Finding]:
    changes = _changes(found, verdict)
    if verdict.kind == "unknown":
        yield Finding(_what_would_help(verdict), "undecided")
    elif verdict.probabilities:
        rest = {kind: p for kind, p in verdict.probabilities.items() if kind != verdict.kind and p >= 0.01}
        if rest:
            yield Finding(f"If not, then {', '.join(f'{kind} ({p:.0%})' for kind, p in rest.items())}.")
    if changes:
        yield Finding(f"This run differs from its like: {'; '.join(changes)}.")
    elif verdict.kind in ("you", "both"):
        yield Finding("Its pattern of I/O is that of its like: what slowed it is not in the log.", "undecided")
    if found.sick:
        more = f"; and {len(found.sick) - _MOST_NOTES} more" if len(found.sick) > _MOST_NOTES else ""
        yield Finding(f"Not well meanwhile: {'; '.join(found.sick[:_MOST_NOTES])}{more}.")
    if verdict.kind in ("system", "both", "you") and verdict.harm_seconds is not None and verdict.system is not None:
        yield Finding(_turning_point(verdict))


def _changes(found: Explained, verdict: Verdict) -> list[str]:
    if not verdict.changed:
        return []
    table = patterns_of(found.runs)
    return difference_words(table[found.this], usual_pattern(np.delete(table, found.this, axis=0)), verdict.changed)


def _what_would_help(verdict: Verdict) -> str:
    if "like runs" in verdict.reason:
        return f"A verdict needs {LEAST_RUNS} or more like runs with samples of the system: ingest earlier logs."
    if "coarse" in verdict.reason:
        return "Finer samples of the system (block devices every second, Lustre every 5 s) would decide it."
    if "sampled" in verdict.reason:
        return "Samples of the system over the whole run would decide it."
    return f"The likeliest is {verdict.likeliest} ({verdict.probability:.0%}); more like runs would sharpen it."


def _turning_point(verdict: Verdict) -> str:
    """What would change the verdict, in seconds."""
    assert verdict.harm_seconds is not None
    assert verdict.system is not None
    assert verdict.own is not None
    harm = format_seconds(verdict.harm_seconds)
    if verdict.kind == "system":
        return f"It would be both if more than {harm} were left that the system does not explain."
    if verdict.kind == "you":
        return f"It would be both if the system's state explained {harm}; it explains {_amount(verdict.system)}."
    return f"It would be the system alone if the rest ({_amount(verdict.own)}) were below {harm}."


def _caveats(view: JobView, found: Explained, verdict: Verdict) -> Iterator[str]:
    yield (
        "The verdict compares the run with its like; whether all of them could be faster is advice, not the verdict."
    )
    if view.job_io.rows > 1:
        yield f"The job holds {view.job_io.rows} runs; judged is the one with most I/O time."
    yield "Ranges are 90% intervals. The rest is what the run did, or what nobody measured."
    if verdict.kind == "both":
        yield "A busy system and an unusual pattern multiply: the share of each is that of the usual pattern."
    if verdict.state == OPERATIONS:
        yield "The times of these runs follow the servers' operations more than their bytes: these were used."


def _coverage(found: Explained, verdict: Verdict) -> Coverage:
    states = found.system.text("state").tolist()
    others = [state for i, state in enumerate(states) if i != found.this]
    left = {state: others.count(state) for state in ("gap", "outside") if others.count(state)}
    share = f"this run: {verdict.coverage_ratio:.0%} sampled, every {format_seconds(found.step_seconds)}"
    return Coverage(len(others), len(others) - sum(left.values()), "like runs with samples throughout", left, share)


def _umami(found: Explained, states: GroupRuns) -> Iterator[Exhibit]:
    metrics: dict[str, Floats] = {
        "I/O time [s]": states.io_seconds,
        "rate [GiB/s]": found.runs.floats("bytes_per_s") / GIB,
    }
    for label, (values, unit) in _measures(found, states).items():
        scale, name = _UMAMI_UNITS[unit]
        metrics[f"{label} [{name}]"] = values / scale
    order = np.argsort(np.asarray(found.runs.array("start_ns")), kind="stable")
    times = found.runs.ints("start_ns")
    rows: list[tuple[Cell, ...]] = []
    estimates = []
    for label, values in metrics.items():
        others = _others(values, found.this)
        if len(others) < 4:
            continue
        q25, q50, q75 = (float(q) for q in np.quantile(others, (0.25, 0.5, 0.75)))
        rows += [
            (label, int(times[i]), float(values[i]), bool(i == found.this), q25, q50, q75)
            for i in order.tolist()
            if np.isfinite(values[i])
        ]
        estimates.append(
            Estimate(f"median: {label}", q50, "", q25, q75, 0.5, len(others), "quartiles of the like runs")
        )
    if not rows:
        return
    columns = (
        ResultColumn("metric", "", "text"), ResultColumn("time", "", "time_ns"), ResultColumn("value"),
        ResultColumn("this"), ResultColumn("q25"), ResultColumn("q50"), ResultColumn("q75"),
    )  # fmt: skip
    chart = Chart(
        "umami", ResultTable("among_like_runs", columns, tuple(rows)),
        {"metric": "metric", "x": "time", "y": "value", "this": "this", "q25": "q25", "q50": "q50", "q75": "q75"},
        "This run among its like",
    )  # fmt: skip
    yield Exhibit("why.umami", "This run among its like", charts=(chart,), estimates=tuple(estimates))
