"""Verdicts and culprits in words: facts, findings and exhibits of `why`, sentences about culprits for `who`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Frame
from ioweather.core.results import (
    Amount,
    Answer,
    Chart,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Reference,
    ResultTable,
    number_names,
)
from ioweather.core.units import format_bytes, format_seconds, format_time_ns, format_value, one_line
from ioweather.diagnosis.blame import Blame, Party, Slowed, Suspect, TotalBlame, blame, one_of_two, sum_blames
from ioweather.diagnosis.comparison_pool import describe_changes, find_patterns, list_changes, usual_pattern
from ioweather.diagnosis.time_model import LevelMove
from ioweather.diagnosis.verdict import LEAST_PROBABILITY, LEAST_RUNS, Comparison, Seconds, Verdict, judge
from ioweather.facts.job_metrics import quotient
from ioweather.facts.runs import program_names
from ioweather.job_io.outcomes import Change, Culprit, Reason, SplitSeconds, VerdictKind, WhyOutcome
from ioweather.job_io.summary import ALWAYS_SAID, notes
from ioweather.job_io.view import JobView

_MOST_NOTES: Final = 3
_FEW_RUNS: Final = 10
_LEAST_IN_CHART: Final = 4
# Slowdowns that are shown, with their labels.
_SLOWDOWNS: Final = {
    "probe_data": "probe, data",
    "probe_targets": "probe, targets",
    "probe_metadata": "probe, metadata",
    "probe_start": "probe, start delay",
}
_PROBED: Final = {
    "probe_data": "data probes took {:.1f} times as long as usual",
    "probe_targets": "target probes took {:.1f} times as long as usual",
    "probe_metadata": "metadata probes took {:.1f} times as long as usual",
    "probe_start": "the probe waited {:.1f} times as long as usual to open its directory",
}
_NO_COVERAGE: Final = Coverage(1, 0, "runs with system samples", {"no system data": 1})
_NO_SYSTEM: Final = (
    "It is unknown whether the system was busy ({reason}). Use `ioweather ingest` to add system samples (iostat, "
    "LMT, Lustre, block devices) and earlier logs of this program."
)


class _KindWords(NamedTuple):
    """Words of a verdict: how a headline begins, what follows "most likely", what would change the verdict."""

    begins: str
    likely: str
    changes: str = ""


_KINDS: Final[Mapping[VerdictKind, _KindWords]] = {
    "normal": _KindWords("I/O was as fast as usual", "nothing was slow"),
    "system": _KindWords(
        "Storage was slow, not your job",
        "storage",
        'It would be "both" if its own change had cost {harm} or more (it cost {own}).',
    ),
    "you": _KindWords(
        "Your job was slow, not storage",
        "the job itself",
        'It would be "both" if storage had cost {harm} or more (it cost {system}).',
    ),
    "both": _KindWords(
        "Storage and your job were both slow",
        "both the job and storage",
        'It would be "system" if its own change had cost less than {harm} (it cost {own}).',
    ),
    "unexplained": _KindWords("Slow for a cause we did not measure", "a cause we did not measure"),
}
# Why there is no verdict, and what would help.
_DOUBTS: Final[Mapping[Reason, tuple[str, str]]] = {
    Reason.NO_IO_TIME: ("the log records no I/O time", "A verdict needs the I/O time of the run."),
    Reason.FEW_SIMILAR_RUNS: (
        f"{{n}} similar run{{plural}}{{sampled}}; a verdict needs {LEAST_RUNS}",
        f"A verdict needs at least {LEAST_RUNS} similar runs with system samples. Ingest earlier logs.",
    ),
    Reason.NO_SYSTEM_DATA: (
        "it took {took} as usual, and there are no system samples",
        _NO_SYSTEM.format(reason="no system samples"),
    ),
    Reason.PARTLY_SAMPLED: (
        "system samples cover only {coverage:.0%} of the run",
        "A verdict needs system samples of the whole run.",
    ),
    Reason.COARSE_SAMPLES: (
        "the sampling interval is too long for this run: most of each sample falls outside its I/O",
        "A verdict needs more frequent samples (block devices every second, Lustre every 5 s).",
    ),
    Reason.COST_NOT_KNOWN: (
        "too few runs have made this change to estimate its cost",
        "The estimate needs more runs with this change, of any program.",
    ),
    Reason.LOW_PROBABILITY: (
        "most likely ({probability:.0%}) {cause}",
        "More similar runs would add certainty.",
    ),
}


def explain(
    view: JobView, found: Comparison | None, reason: Reason = Reason.NO_SYSTEM_DATA, detail: str = ""
) -> Answer:
    """Return the answer to `why` for the main run; without similar runs `found` is None, for `reason`."""
    run = view.job_io.take([view.main_run]).records()[0]
    program, spent = program_names(view.applications.take([view.main_run]))[0], run["io_seconds"]
    share = spent / run["run_seconds"] if spent and run["run_seconds"] else None
    did = (
        Fact("program", "program", program, "text", note=f"{run['nprocs']:,} processes"),
        Fact("read_bytes", "read", run["read_bytes"], "bytes"),
        Fact("write_bytes", "written", run["write_bytes"], "bytes"),
        Fact("io_seconds", "I/O time", spent, "seconds", share, "" if share is None else f"{share:.0%} of the run"),
        Fact("bytes_per_s", "rate", run["bytes_per_s"], "bytes_per_s"),
    )
    shown = [each for at, each in enumerate(notes(view, view.row())) if at < _MOST_NOTES or each.name in ALWAYS_SAID]
    answer = _unknown(reason, detail or "no system data for this period") if found is None else _judged(view, found)
    assert isinstance(answer.result, WhyOutcome)
    io_seconds = spent if answer.result.io_seconds is None else answer.result.io_seconds
    moved = {name: run[name] for name in ("read_bytes", "write_bytes")}
    number = view.run_number + view.main_run
    return replace(
        answer,
        question=f"Was it {view.label}, or the system?",
        facts=(FactGroup("run", "What the run did", did), *(group for group in answer.facts if group.facts)),
        findings=(*answer.findings, *number_names(shown)),
        name="why",
        result=replace(answer.result, io_seconds=io_seconds, **moved, run=number, logs=view.logs_of_job),
    )


def _unknown(reason: Reason, detail: str) -> Answer:
    """The verdict on a run without similar runs."""
    return Answer(
        "",
        f"Unknown: {detail}.",
        findings=(Finding(_NO_SYSTEM.format(reason=detail), "undecided", "what_would_help"),),
        coverage=(_NO_COVERAGE,),
        result=WhyOutcome("unknown", reason),
    )


def _judged(view: JobView, found: Comparison) -> Answer:
    """The verdict on a run from similar runs, with facts and findings on the comparison."""
    measures = [] if found.system is None else measure_system(found.runs, found.system)
    unusual = _list_unusual(found, measures)
    verdict = judge_among_measures(found, unusual)
    io_seconds = float(found.runs.floats("io_seconds")[0])  # on the file system in question
    parts = (verdict.usual, verdict.system, verdict.own, verdict.unexplained)
    is_node = verdict.kind == "unexplained" and found.node_slowdown is not None
    changes = _changes(found, verdict)
    return Answer(
        "",
        _headline(view, found, verdict, unusual),
        (
            FactGroup("comparison", "I/O time compared with similar runs", tuple(_comparison_facts(found, verdict))),
            FactGroup("system", f"What {found.filesystem} did during the run", tuple(_system_facts(measures))),
            FactGroup("split", "Where the time went", tuple(_split_facts(verdict))),
        ),
        exhibits=tuple(_draw_similar_runs(found, verdict)),
        findings=tuple(_findings(found, verdict, changes, unusual)),
        caveats=tuple(_caveats(verdict)),
        coverage=(_NO_COVERAGE if found.system is None else _coverage(found, found.system, verdict),),
        result=WhyOutcome(
            kind=verdict.kind,
            reason=Reason.NODE if is_node else verdict.reason,
            likeliest=verdict.likeliest,
            probability=verdict.probability if verdict.probabilities else None,
            probabilities={str(kind): p for kind, p in verdict.probabilities.items()},
            filesystem=found.filesystem,
            io_seconds=io_seconds if math.isfinite(io_seconds) else None,
            slowness=found.slowdown if math.isfinite(found.slowdown) else None,
            harm_seconds=verdict.harm_seconds,
            seconds=SplitSeconds(
                *[None if each is None else Amount(each.value, each.low, each.high) for each in parts]
            ),
            changed=changes,
            unhealthy=found.unhealthy,
            n=verdict.n,
            coverage=verdict.coverage_ratio,
        ),
    )


def judge_among_measures(found: Comparison, unusual: Sequence[str] | None = None) -> Verdict:
    """Return the verdict of the model. Where something `unusual` may be the cause, a run is less surely unexplained."""
    if unusual is None:
        unusual = _list_unusual(found, [] if found.system is None else measure_system(found.runs, found.system))
    met_sick = bool(found.unhealthy or found.queue or found.wait or found.probe)
    verdict = judge(found.pool, 0, met_sick=met_sick)
    is_hedged = (unusual or found.probe) and verdict.likeliest == "unexplained" and found.node_slowdown is None
    return verdict.capped(LEAST_PROBABILITY, "system") if is_hedged else verdict


# A measure is unusual above this share of similar runs, and from so many times their median. [ours]
_UNUSUAL_SHARE: Final = 0.95
_UNUSUAL_TIMES: Final = {"bytes_per_s": 1.5, "ops_per_s": 1.5, "ratio": 1.25, "probe_start": 3.0}


def _list_unusual(found: Comparison, measures: Sequence[_Measure]) -> tuple[str, ...]:
    """What was unusual during the run: unhealthy components, then other measures, the most unusual first."""
    sick = sorted(found.unhealthy, key=lambda each: -(each.probability or 0.0))
    listed = list[tuple[float, str]]()
    if (each := found.queue) is not None:
        text = f"{each.name} had the longest queue with {each.value:.1f} requests (next target: {each.next_value:.1f})"
        listed.append((each.value / max(each.next_value, each.usual, 0.5), text))
    if (each := found.wait) is not None:
        times = each.value / each.next_value
        text = f"requests at {each.name} took {times:.1f} times as long as at another target"
        listed.append((times, text))
    for name, label, values, unit in measures:
        least = _UNUSUAL_TIMES.get(name, _UNUSUAL_TIMES.get(unit, math.inf))
        here, others = float(values[0]), _known_of_others(values)
        if len(others) < LEAST_RUNS or not here > 0:
            continue
        share, times = float(np.mean(others < here)), here / max(float(np.median(others)), 1e-9)
        if share >= _UNUSUAL_SHARE and times >= least:
            shown = _PROBED[name].format(here) if name in _PROBED else f"{label} {format_value(here, unit)}"
            listed.append((min(times, 100.0), f"{shown}, above {share:.0%} of similar runs"))
    listed.sort(key=lambda each: -each[0])
    causes = dict.fromkeys(each.cause + _probability_words(each.probability) for each in sick)
    return (*causes, *(text for _, text in listed))


def _headline(view: JobView, found: Comparison, verdict: Verdict, unusual: Sequence[str]) -> str:
    """Return what was slow, how sure that is, and the run's I/O time against the usual one."""
    if verdict.reason is not None and verdict.reason is not Reason.LOW_PROBABILITY:
        return f"Unknown: {_describe_doubt(verdict.reason, found, verdict)[0]}."
    assert verdict.usual is not None
    took, usual = format_seconds(verdict.io_seconds), format_seconds(verdict.usual.value)
    whose = f"I/O of {view.run_words}" if view.run_words else "I/O"
    if verdict.reason is not None:
        return f"Not sure: {_describe_doubt(verdict.reason, found, verdict)[0]}; {whose} took {took}, usually {usual}."
    times = f"{whose} took {took} instead of {usual}"
    if verdict.kind == "normal":
        times = f"{whose if view.run_words else 'it'} took {took}, usually {usual}"
    words, more = _KINDS[verdict.kind].begins, ""
    if verdict.kind == "unexplained" and found.node_slowdown is not None:
        words = "The node was slow, not storage"
        more = f"; other runs on it took {found.node_slowdown:.1f} times as long as usual"
    elif verdict.kind == "unexplained" and verdict.level is not None and verdict.level.factor is not None:
        level = _describe_level(verdict.level, verdict.level.factor)
        words = "Slow, as were programs that did not change"
        more = f"; {level[:1].lower()}{level[1:]}"
    elif verdict.kind == "unexplained" and unusual:
        words, more = "Slow, but the cause is not proved", f"; perhaps because {unusual[0]}"
    if verdict.growth is not None:
        grown = f"moved {verdict.growth.factor:.1f} times its usual amount of data"
        words, more = (f"Your job {grown}", "") if verdict.kind == "you" else (words, f"; it {grown}{more}")
    return f"{words} ({say_how_sure(verdict.probability)}): {times}{more}."


def _describe_doubt(reason: Reason, found: Comparison, verdict: Verdict) -> tuple[str, str]:
    """(why there is no verdict, what would help)."""
    took = "as long"
    if verdict.usual is not None and verdict.probabilities["normal"] < LEAST_PROBABILITY:
        took = f"{verdict.io_seconds / verdict.usual.value:.1f} times as long"
    values = {
        "n": verdict.n or "no",
        "plural": "" if verdict.n == 1 else "s",
        "sampled": " with system samples" if found.pool.loads else "",
        "took": took,
        "coverage": verdict.coverage_ratio,
        "probability": verdict.probability,
        "likeliest": verdict.likeliest,
        "cause": _KINDS[verdict.likeliest].likely if verdict.probabilities else "",
    }
    why, helps = (text.format(**values) for text in _DOUBTS[reason])
    return why, helps


def _attribute_delay(verdict: Verdict) -> tuple[float, float, float]:
    """Seconds of (storage, own change, neither), which add up to the time beyond the usual.

    Medians of the parts do not add up. The difference goes to storage and own change as far as their intervals allow.
    """
    assert verdict.usual is not None
    delay = max(0.0, verdict.io_seconds - verdict.usual.value)
    rest = 0.0 if verdict.unexplained is None else min(delay, max(0.0, verdict.unexplained.value))
    parts = [part or Seconds(0.0, 0.0, 0.0) for part in (verdict.system, verdict.own)]
    together = sum(max(0.0, part.value) for part in parts)
    scale = (delay - rest) / together if together > 0 else 0.0
    system, own = (max(0.0, min(part.value * scale, max(part.value, part.high))) for part in parts)
    return system, own, max(0.0, delay - system - own)


def _comparison_facts(found: Comparison, verdict: Verdict) -> Iterator[Fact]:
    """The run's I/O time beside the usual one."""
    definition = "same user, program, processes; data within 25%"
    yield Fact("similar_runs", "similar runs", verdict.n, "count", note=definition)
    if verdict.usual is None:
        return
    others = _known_of_others(found.runs.floats("io_seconds"))
    yield Fact("usual_io_seconds", "usual I/O time", verdict.usual.value, "seconds", note="in the usual system state")
    if len(others):
        slower = int(np.sum(others < verdict.io_seconds))
        of_all = f"{slower} of" if slower < len(others) else "all"
        note = f"slower than {of_all} {len(others)} similar runs"
        yield Fact("this_run", "this run", verdict.io_seconds, "seconds", slower / len(others), note)
    threshold = "15%, or twice the usual spread"
    yield Fact("harm_seconds", "slow means at least", verdict.harm_seconds, "seconds", note=threshold)


def _known_of_others(values: NDArray[Any]) -> Floats:
    """Known values of the similar runs; the run itself is the first."""
    rest = np.asarray(values[1:], np.float64)
    return rest[np.isfinite(rest)]


class _Measure(NamedTuple):
    """A measure of the system during each run."""

    name: str
    label: str
    values: Floats
    unit: str


def measure_system(job_io: Frame, system: Frame) -> list[_Measure]:
    """Measures of load and slowness during runs; `job_io` and `system` have the same runs in one order.

    Bytes of others are those of all whole sampling steps with the run's I/O, less its own: trimmed at the ends they
    would be wrong, since with coarse samples a run's bytes are not spread evenly over its first step. Bytes on its
    targets are shown only if the targets of all runs are known. Operations of servers do not match the run's calls one
    for one, so its own are subtracted only in the mean.
    """
    during = system.floats("d_d_seconds")
    read, write = (system.floats(f"others_io_high_{verb}_bytes") for verb in ("read", "write"))
    found = [
        _Measure("others_read", "others read", quotient(read, during), "bytes_per_s"),
        _Measure("others_write", "others write", quotient(write, during), "bytes_per_s"),
    ]
    if "target_bytes_per_s" in system:
        targets = system.floats("target_bytes_per_s")
        if np.isfinite(targets[np.isfinite(quotient(read + write, during))]).all():
            found.append(_Measure("own_targets", "on its targets", targets, "bytes_per_s"))
    operations = system.floats("psid_read_ops_count") + system.floats("psid_write_ops_count")
    if np.isfinite(operations).any():
        own = job_io.floats("fs_read_count") + job_io.floats("fs_write_count")
        rate = quotient(operations - own, system.floats("inside_seconds"))
        found.append(_Measure("others_operations", "others' operations", rate, "ops_per_s"))
    for name, label in _SLOWDOWNS.items():
        if name in system and np.isfinite(system.floats(name)).any():
            found.append(_Measure(name, label, np.exp(system.floats(name)), "ratio"))
    if "sick_count" in system and np.any(system.array("sick_count")):
        unhealthy = system.floats("sick_count")
        found.append(_Measure("unhealthy_components", "unhealthy components", unhealthy, "count"))
    # System and run are counted by different clocks, so a difference may be negative.
    return [each._replace(values=np.maximum(each.values, 0.0)) for each in found]


def _system_facts(measures: Sequence[_Measure]) -> Iterator[Fact]:
    """Load and slowness of the system during the run, as percentiles among similar runs."""
    for name, label, values, unit in measures:
        here, others = float(values[0]), _known_of_others(values)
        if not np.isfinite(here):
            continue
        share = float(np.mean(others < here)) if len(others) >= LEAST_RUNS else None
        note = "" if share is None else f"above {share:.0%} of similar runs"
        value, shown_as = (f"{here:.2f}x usual", "text") if unit == "ratio" else (here, unit)
        yield Fact(name, label, value, shown_as, share, note)


def _split_facts(verdict: Verdict) -> Iterator[Fact]:
    """The run's seconds: as usual, by the system, by its own change, unexplained."""
    if verdict.usual is None or verdict.system is None or verdict.own is None or verdict.unexplained is None:
        return
    system, own, rest = _attribute_delay(verdict)
    usual = min(verdict.usual.value, verdict.io_seconds)
    parts = (
        ("usual", "as usual", usual, f"range {_seconds_range(verdict.usual)}"),
        ("system", "storage", system, _seconds_range(verdict.system)),
        ("own", "what it did differently", own, _seconds_range(verdict.own)),
        ("unexplained", "unexplained", rest, _seconds_range(verdict.unexplained)),
    )
    for name, label, value, note in parts:
        yield Fact(name, label, value, "seconds", value / verdict.io_seconds if verdict.io_seconds else None, note)


def _seconds_range(part: Seconds) -> str:
    return f"{format_seconds(max(0.0, part.low))} to {format_seconds(max(0.0, part.high))}"


def _findings(
    found: Comparison, verdict: Verdict, changes: Sequence[Change], unusual: Sequence[str]
) -> Iterator[Finding]:
    """What is unsure, what changed, where the system was slow, and what would change the verdict."""
    if verdict.reason is not None:
        yield Finding(_describe_doubt(verdict.reason, found, verdict)[1], "undecided", "what_would_help")
    elif verdict.probabilities:
        rest = {kind: p for kind, p in verdict.probabilities.items() if kind != verdict.kind and p >= 0.01}
        if rest:
            listed = ", ".join(f"{kind} ({p:.0%})" for kind, p in rest.items())
            yield Finding(f"Other possibility: {listed}.", name="other_possibilities")
    if changes:
        yield Finding(f"This run differs from similar runs: {'; '.join(describe_changes(changes))}.", name="changed")
    elif verdict.kind == "unexplained":
        text = "Its I/O pattern matches the similar runs, so the log does not show what slowed it."
        yield Finding(text, "undecided", "unchanged")
    is_late, may_be_cause = verdict.probabilities.get("normal", 1.0) < 0.5, verdict.likeliest == "unexplained"
    if unusual and is_late and may_be_cause:
        text = f"Unusual during the run, but not proved to be the cause: {'; '.join(unusual[:_MOST_NOTES])}."
        yield Finding(text, "undecided", "unusual")
    causes = list(dict.fromkeys(item.cause + _probability_words(item.probability) for item in found.unhealthy))
    if causes and not (is_late and may_be_cause):
        more = f"; and {len(causes) - _MOST_NOTES} more" if len(causes) > _MOST_NOTES else ""
        text = f"Unhealthy components during the run: {'; '.join(causes[:_MOST_NOTES])}{more}."
        yield Finding(text, name="unhealthy_components")
    if verdict.level is not None:
        since, factor = format_time_ns(verdict.level.since_ns), verdict.level.factor
        text = (
            f"All runs with this change are on one side of {since}, and all runs without it are on the other. No other "
            "program ran both before and after, so the effects of change and date cannot be separated."
        )
        if factor is not None:
            text = f"{_describe_level(verdict.level, factor)}, including programs that did not change."
        yield Finding(text, "undecided", "level")
    if is_late and not may_be_cause:
        yield from _slow_places(found, is_own=verdict.kind == "you")
    if verdict.reason is None and verdict.harm_seconds is not None and verdict.system is not None:
        values = {"own": verdict.own, "system": verdict.system}
        seconds = {name: format_seconds(max(0.0, part.value)) for name, part in values.items() if part is not None}
        text = _KINDS[verdict.kind].changes.format(harm=format_seconds(verdict.harm_seconds), **seconds)
        if text:
            yield Finding(text, name="turning_point")


def _describe_level(level: LevelMove, factor: float) -> str:
    """A move of the level: since when, what and how much."""
    what = "all of this user's I/O" if level.of_user else "everything"
    return f"Since {format_time_ns(level.since_ns)} {what} is {factor:.1f} times slower"


def _probability_words(probability: float | None) -> str:
    return "" if probability is None else f" (probability {probability:.0%})"


def _slow_places(found: Comparison, *, is_own: bool) -> Iterator[Finding]:
    """The targets with the longest queue and the slowest requests and the slowest probed place, if they stood out.

    A run that `is_own` slow may have made the queue itself, but not the difference between equally busy targets.
    """
    if (each := found.wait) is not None:
        text = (
            f"A request at {each.name} took {format_seconds(each.value)}, but {format_seconds(each.next_value)} at "
            "another target with about as many requests."
        )
        yield Finding(text, name="longest_wait")
    if is_own:
        return
    if (each := found.queue) is not None:
        text = (
            f"{each.name} had the longest queue: {each.value:.1f} requests, compared with {each.next_value:.1f} on "
            f"the next target. In 75% of similar runs, the queue had at most {each.usual:.1f}."
        )
        yield Finding(text, name="longest_queue")
    if (each := found.probe) is not None and each.shown:
        text = (
            f"Around the run's I/O, data probes on {one_line(each.name)} took {each.value:.1f} times as long as usual "
            f"(median); elsewhere, at most {each.next_value:.1f} times."
        )
        yield Finding(text, name="slowest_probe")


def _changes(found: Comparison, verdict: Verdict) -> tuple[Change, ...]:
    """How the run's pattern differs from that of similar runs."""
    if not verdict.changed:
        return ()
    table = find_patterns(found.runs)
    return list_changes(table[0], usual_pattern(table[1:]), verdict.changed)


def _caveats(verdict: Verdict) -> Iterator[str]:
    yield "The verdict compares this run with similar runs. The advice shows how to make all of them faster."
    yield "Ranges are 90% intervals. Unexplained time has no measured cause."
    if verdict.kind == "both":
        yield "The effects of a busy system and an unusual pattern multiply. Their joint effect is split evenly."
    if verdict.pooled and verdict.n < _FEW_RUNS:
        yield (
            f"There are only {verdict.n} similar runs, so the verdict relies largely on {verdict.pooled} runs of "
            "other programs."
        )
    if verdict.changed and verdict.kind in ("you", "both"):
        yield f"The cost of the change is estimated from {verdict.changed_alike} other runs with such a change."


def _coverage(found: Comparison, system: Frame, verdict: Verdict) -> Coverage:
    """Similar runs that were sampled throughout, and why others were not."""
    others = system.text("state").tolist()[1:]
    excluded = {state: others.count(state) for state in ("gap", "outside") if others.count(state)}
    share = f"this run: {verdict.coverage_ratio:.0%} sampled, every {format_seconds(found.step_seconds)}"
    included = len(others) - sum(excluded.values())
    return Coverage(len(others), included, "similar runs with complete samples", excluded, share)


def _draw_similar_runs(found: Comparison, verdict: Verdict) -> Iterator[Exhibit]:
    """Yield a chart of the I/O time of this run and of similar ones by start."""
    seconds, start = found.runs.floats("io_seconds"), found.runs.ints("start_ns")
    if len(_known_of_others(seconds)) < _LEAST_IN_CHART:
        return
    end, last = found.runs.ints("end_ns"), int(found.runs.ints("end_ns").max())
    sick = found.unhealthy if verdict.kind in ("system", "both") else ()
    ill = np.zeros(len(seconds), np.bool_)
    for each in sick:
        ill |= (start < (each.end_ns or last)) & (end > each.start_ns)
    # This run comes last, so that it is drawn above the others.
    rows = [
        (int(start[i]), "this run" if i == 0 else "during the problem" if ill[i] else "similar runs", float(seconds[i]))
        for i in reversed(range(len(seconds)))
        if np.isfinite(seconds[i])
    ]
    table = ResultTable.of("similar_runs", "time: start [time_ns]; run [text]; seconds: I/O time [seconds]", rows)
    marks = [Reference("x", s.start_ns, s.component or "", s.end_ns or last, "bad") for s in sick]
    if (usual := verdict.usual) is not None:
        marks.append(Reference("y", max(0.0, usual.low), f"usual, {_seconds_range(usual)}", usual.high))
    chart = Chart.of("scatter", table, "x=time y=seconds series=run", references=tuple(marks))
    yield Exhibit("why.similar_runs", "This run among similar runs", charts=(chart,))


# Culprits.


_SMALL_REQUEST_BYTES: Final = 64 * 1024
_MOST_SENTENCES: Final = 3
NOT_ADDITIVE: Final = (
    "The costs of several jobs may not add up. Without one of two jobs, the run may still wait for the other."
)


def name_job(party: Party, *, begins: bool = False) -> str:
    """Name of a job, such as `job 4711 (alice, bulkcopy)`, or `another job` if hidden.

    `begins`: it begins a sentence.
    """
    if party.hidden:
        return "Another job" if begins else "another job"
    no_name = "I/O without a job ID"
    name = (
        f"{'Job' if begins else 'job'} {party.job_id}" if party.job_id is not None else one_line(party.key) or no_name
    )
    user = party.user or (f"uid {party.uid}" if party.uid is not None else "")
    beside = ", ".join(one_line(text) for text in (user, party.program or "") if text)
    return f"{name} ({beside})" if beside else name


def say_how_sure(probability: float) -> str:
    """A probability in words."""
    return f"{probability:.0%} sure" if probability < 0.995 else "more than 99% sure"


def describe_without(run: Slowed, found: Blame) -> str:
    """Sentence on the run without the job."""
    took, less = format_seconds(run.io_seconds), format_seconds(max(0.0, run.io_seconds - found.seconds))
    interval = f"{format_seconds(found.low)} to {format_seconds(found.high)} less"
    who, certainty = name_job(found.suspect.party), say_how_sure(found.probability)
    return f"Without {who}, this run's I/O would have taken {less} instead of {took} ({interval}; {certainty})."


def describe_work(suspect: Suspect, run: str) -> str:
    """Sentence on what the job did while it overlapped the `run`."""
    moved = suspect.read_bytes + suspect.write_bytes
    done = [
        f"{verb} {format_bytes(size)}"
        for verb, size in (("read", suspect.read_bytes), ("wrote", suspect.write_bytes))
        if size >= 1
    ]
    if done and suspect.requests >= 1:
        done[-1] += f" in requests of {format_bytes(moved / suspect.requests)}"
    if suspect.metadata_operations >= 1:
        done.append(f"did {suspect.metadata_operations:,.0f} metadata operations")
    where = ", ".join(f"{share:.0%} of the work on {one_line(name)}" for name, share in suspect.targets[:2])
    return f"It {' and '.join(done) or 'was active'} while it overlapped {run}{f': {where}' if where else ''}."


def advise_owner(suspect: Suspect) -> str:
    """Advice to the owner of the job."""
    moved = suspect.read_bytes + suspect.write_bytes
    if suspect.metadata_seconds > suspect.data_seconds:
        return "Ask the owner for fewer opens and stats: pack small files together, or use fewer processes at a time."
    if suspect.requests >= 1 and moved / suspect.requests < _SMALL_REQUEST_BYTES:
        return "Ask the owner for larger requests: each small request has a high overhead on the targets."
    if suspect.targets and suspect.targets[0][1] > 0.5 and len(suspect.targets) <= 2:
        return "Ask the owner to stripe the files over more targets: the data goes to only a few of them."
    return "Ask the owner to move the job to quieter hours, or to spread its I/O over more time."


def as_culprit(found: TotalBlame) -> Culprit:
    """Row of the result for a culprit."""
    party = found.party
    seconds = found.seconds, found.low, found.high
    return Culprit(party.job_id, party.user, party.project, found.probability, *seconds, party.program)


def with_usual_of_verdict(run: Slowed, result: WhyOutcome) -> Slowed:
    """The run with the usual time of its verdict, if too few similar runs give one."""
    usual = result.seconds.usual
    if run.usual.value is not None or usual is None or usual.value is None or result.harm_seconds is None:
        return run
    return replace(run, usual=usual, own=result.seconds.own, harm_seconds=result.harm_seconds)


def find_culprits(run: Slowed) -> tuple[TotalBlame, ...]:
    """Jobs that are named for slowing the run, the most seconds first."""
    return sum_blames([blame(run)], lambda party: party.key)


def with_culprits(answer: Answer, run: Slowed | None) -> Answer:
    """Add the culprits to the answer of `why` if the system slowed the run."""
    result = answer.result
    if run is None or not isinstance(result, WhyOutcome) or result.kind not in ("system", "both"):
        return answer
    run = with_usual_of_verdict(run, result)
    found = find_culprits(run)
    said = replace(result, culprits=tuple(as_culprit(each) for each in found))
    return replace(answer, result=said, findings=(*culprit_findings(run, found), *answer.findings))


def describe_one_of_two(run: Slowed) -> str:
    """Sentence on two jobs of which one slowed the run; empty if it is none or a single one."""
    either = one_of_two(run)
    if either is None:
        return ""
    one, other, probability = either
    return f"Either {name_job(one)} or {name_job(other)} slowed it ({say_how_sure(probability)})."


def culprit_findings(run: Slowed, found: Sequence[TotalBlame]) -> Iterator[Finding]:
    """Findings on the culprits of a run."""
    if either := describe_one_of_two(run):
        yield Finding(either, "note", "one_of")
    for number, each in enumerate(found[:_MOST_SENTENCES], 1):
        suspect = each.worst.suspect
        words = f"{describe_without(run, each.worst)} {describe_work(suspect, 'this run')}"
        yield Finding(words, "note", f"culprit_{number}")
    if len(found) > 1:
        yield Finding(NOT_ADDITIVE, name="not_additive")


def why_no_culprit(run: Slowed, known_ratio: float | None = None) -> str:
    """Reason why no job is named; `known_ratio` is the share of the traffic that jobs' records explain."""
    if not run.is_slow:
        return "it was not slowed; its I/O took as long as usual"
    if not run.suspects:
        return "no log shows I/O of another job at the same time"
    if known_ratio is not None and known_ratio < 0.5:
        return f"job logs do not explain {1 - known_ratio:.0%} of the traffic"
    return "the jobs that ran at the same time do not explain the delay"
