"""The verdict in words: what the run did, its time beside similar runs, what the system did, what follows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats
from ioweather.core.frames import Frame
from ioweather.core.printable import one_line
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
    ResultTable,
    numbered,
)
from ioweather.core.run_outcomes import AdviceItem, Amount, Change, Reason, SplitSeconds, Unhealthy, WhyOutcome
from ioweather.core.units import GIB, format_seconds, format_value
from ioweather.diagnosis.comparison_pool import (
    OPERATIONS,
    TARGETS,
    GroupRuns,
    Pool,
    difference_words,
    differences,
    group_states,
    patterns_of,
    usual_pattern,
)
from ioweather.diagnosis.verdict import LEAST_RUNS, Seconds, Verdict, judge
from ioweather.facts.file_records import quotient
from ioweather.facts.runs import program_names
from ioweather.job_io.summary import ALWAYS_SAID, notes
from ioweather.job_io.view import JobView

_WIDTH: Final = 80
_BAR: Final = 36
_PARTS: Final = {
    "usual": "as usual", "system": "the system", "own": "its own change", "unexplained": "unexplained",
}  # fmt: skip
# What a scheduler takes as a comment without trouble.
_LONGEST_LINE: Final = 500


@dataclass(frozen=True)
class JobText:
    """`job` is the id as people know it; `when` says as of which time it was judged."""

    job: str
    headline: str
    outcome: WhyOutcome
    when: str

    def line(self) -> str:
        """Headline with its probability, and what to change first."""
        advice = f" Worth changing: {_advice(self.outcome.worth[0])}." if self.outcome.worth else ""
        text = one_line(f"{self.headline}{advice} (ioweather, {self.when})")
        return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."

    def block(self) -> str:
        return "\n".join(one_line(line) for line in self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        rule = "=" * _WIDTH
        yield from (rule, f"I/O of job {self.job}".center(_WIDTH).rstrip(), rule)
        yield from textwrap.wrap(self.headline, _WIDTH)
        bars = list(self._bars())
        yield from ("", *bars) if bars else ()
        if self.outcome.worth:
            yield from ("", "Worth changing (each alone)")
            for item in self.outcome.worth[:3]:
                yield from textwrap.wrap(_advice(item), _WIDTH, initial_indent="  * ", subsequent_indent="    ")
        compared = f"{self.outcome.n} similar runs" if self.outcome.n else "no similar runs"
        when = self.when.removeprefix("judged ")
        yield from ("", f"Compared with {compared}; judged {when}.", f"More: ioweather why {self.job}", rule)

    def _bars(self) -> Iterator[str]:
        took = self.outcome.io_seconds
        for name, label in _PARTS.items() if took else ():
            part: Amount | None = getattr(self.outcome.seconds, name)
            if took and part is not None and part.value is not None:
                yield _bar(label, max(0.0, min(part.value, took)), took)


def _advice(item: AdviceItem) -> str:
    """Such as: small requests (39.2 s): read(fd, buffer, 4 << 20) instead of each piece."""
    how = f": {item.fix[0].rstrip('.')}" if item.fix else ""
    seconds = format_seconds(item.seconds) if item.seconds > 0 else f"up to {format_seconds(item.high)}"
    return f"{item.name.replace('_', ' ')} ({seconds}){how}"


def _bar(label: str, seconds: float, whole: float) -> str:
    share = seconds / whole
    filled = "|" * round(share * _BAR)
    return f"  {label:<15} {format_seconds(seconds):>10}  [{filled:<{_BAR}} {share:4.0%}]"


_MOST_NOTES: Final = 3
_FEW_RUNS: Final = 10
# What is said of how slow it was for others.
_SLOWDOWNS: Final = {
    "probe_data": "probe, data",
    "probe_targets": "probe, targets",
    "probe_metadata": "probe, metadata",
    "neighbours": "others' runs",
}
# What has a history of its own, whoever ran.
_IN_SERIES: Final = {"others_read": "read_bytes", "others_write": "write_bytes"}
_UMAMI_UNITS: Final = {
    "bytes_per_s": (GIB, "GiB/s"), "ops_per_s": (1.0, "1/s"), "ratio": (1.0, "x usual"), "count": (1.0, "count"),
}  # fmt: skip
_WORDS: Final = {
    "normal": "Normal",
    "system": "The system",
    "you": "You, not the system",
    "both": "Both you and the system",
    "unexplained": "Unexplained",
}


@dataclass(frozen=True, eq=False)
class Explained:
    """The run and similar ones: `job_io` rows with uid, exe and job id, what the system did during each (None where it
    was not sampled), and which row is the run; `pool` are these and runs of other groups, the run first; `unhealthy`
    are the components that were so meanwhile; `week_before` holds rates in the week before, by metric,
    over stretches as long as the run; `slowdown` is the run's I/O time over the median of the similar runs."""

    runs: Frame
    system: Frame | None
    this: int
    pool: Pool
    filesystem: str
    step_seconds: float
    slowdown: float = math.nan
    unhealthy: tuple[Unhealthy, ...] = ()
    week_before: Mapping[str, Floats] = field(default_factory=dict)


def explain(
    view: JobView, row: int, found: Explained | None, reason: Reason = Reason.NO_SYSTEM_DATA, detail: str = ""
) -> Answer:
    """`found` is None where there are no samples of the system at all; `reason` then says why, `detail` in words."""
    question = f"Was it {view.label}, or the system?"
    did = FactGroup("run", "What the run did", tuple(_did(view, row)))
    every = list(notes(view, view.row()))
    shown_notes = numbered(note for at, note in enumerate(every) if at < _MOST_NOTES or note.name in ALWAYS_SAID)
    if found is None:
        why = detail or "no system data for this period"
        return Answer(
            question, f"Unknown: {why}.", (did,),
            findings=(Finding(_remedy(why), "undecided", "what_would_help"), *shown_notes),
            coverage=(Coverage(1, 0, "runs with samples of the system", {"no system data": 1}),),
            name="why", result=_of_run(view, row, WhyOutcome("unknown", reason)),
        )  # fmt: skip
    states = group_states(found.runs, found.system)
    verdict = judge(found.pool, 0)
    groups = (
        did,
        FactGroup("comparison", "I/O time compared with similar runs", tuple(_against(found, states, verdict))),
        FactGroup("system", f"What {found.filesystem} did during the run", tuple(_meanwhile(found, states))),
        FactGroup("split", "Where the time went", tuple(_split(verdict))),
    )
    return Answer(
        question, _headline(view, verdict), tuple(group for group in groups if group.facts),
        exhibits=tuple(_umami(found, states)),
        findings=(*_findings(found, verdict), *shown_notes), caveats=tuple(_caveats(verdict)),
        coverage=(_coverage(found, verdict),), name="why", result=_of_run(view, row, _outcome(found, verdict)),
    )  # fmt: skip


def _outcome(found: Explained, verdict: Verdict) -> WhyOutcome:
    return WhyOutcome(
        kind=verdict.kind,
        reason=verdict.reason,
        likeliest=verdict.likeliest,
        probability=verdict.probability if verdict.probabilities else None,
        probabilities={str(kind): p for kind, p in verdict.probabilities.items()},
        filesystem=found.filesystem,
        slowness=found.slowdown if math.isfinite(found.slowdown) else None,
        harm_seconds=verdict.harm_seconds,
        seconds=SplitSeconds(
            *(_as_amount(part) for part in (verdict.usual, verdict.system, verdict.own, verdict.unexplained))
        ),
        changed=_changes(found, verdict),
        unhealthy=found.unhealthy,
        n=verdict.n,
        coverage=verdict.coverage_ratio,
    )


def _of_run(view: JobView, row: int, outcome: WhyOutcome) -> WhyOutcome:
    """The outcome with which run it is about and what that run moved."""
    run = view.job_io.take([row]).records()[0]
    return replace(
        outcome, io_seconds=run["io_seconds"], read_bytes=run["read_bytes"], write_bytes=run["write_bytes"],
        run=view.run_number + row, logs=view.logs_of_job,
    )  # fmt: skip


def _as_amount(part: Seconds | None) -> Amount | None:
    return None if part is None else Amount(part.value, part.low, part.high)


def _remedy(reason: str) -> str:
    return (
        f"Whether the system was busy cannot be told ({reason}): ingest its samples (iostat, LMT, Lustre, block "
        "devices) with `ioweather ingest`, and earlier logs of this program."
    )


def _did(view: JobView, row: int) -> Iterator[Fact]:
    job = view.job_io.take([row]).records()[0]
    about = view.applications.take([row])
    program = program_names(about)[0]
    yield Fact("program", "program", program, "text", note=f"{job['nprocs']:,} processes")
    yield Fact("read_bytes", "read", job["read_bytes"], "bytes")
    yield Fact("write_bytes", "written", job["write_bytes"], "bytes")
    share = job["io_seconds"] / job["run_seconds"] if job["io_seconds"] and job["run_seconds"] else None
    note = f"{share:.0%} of the run" if share is not None else ""
    yield Fact("io_seconds", "I/O time", job["io_seconds"], "seconds", share, note)
    yield Fact("bytes_per_s", "rate", job["bytes_per_s"], "bytes_per_s")


def _headline(view: JobView, verdict: Verdict) -> str:
    if verdict.kind == "unknown":
        return f"Unknown: {verdict.detail}."
    assert verdict.usual is not None
    took, usual = format_seconds(verdict.io_seconds), format_seconds(verdict.usual.value)
    sure = f"{verdict.probability:.0%} sure" if verdict.probability < 0.995 else "more than 99% sure"
    system, own, _ = (format_seconds(part) for part in attributed(verdict))
    parts = {
        "normal": "",
        "system": f"; the system explains {system} of that",
        "you": f"; what it did differently explains {own} of that",
        "both": f"; the system explains {system}, what it did differently {own}",
        "unexplained": "; nothing that was measured says why",
    }[verdict.kind]
    whose = f"the I/O of {view.run_words}" if view.run_words else "its I/O"
    return f"{_WORDS[verdict.kind]} ({sure}): {whose} took {took}, usually {usual}{parts}."


def attributed(verdict: Verdict) -> tuple[float, float, float]:
    """Seconds of the system, of the run's change and of nobody: together the time beyond the usual. What is predicted
    above that did not happen, and is nobody's."""
    assert verdict.usual is not None
    beyond = max(0.0, verdict.io_seconds - verdict.usual.value)
    parts = [max(0.0, part.value) if part is not None else 0.0 for part in (verdict.system, verdict.own)]
    fits = min(1.0, beyond / sum(parts)) if sum(parts) > 0 else 0.0
    system, own = (part * fits for part in parts)
    return system, own, beyond - system - own


def _amount(seconds: Seconds | None) -> str:
    return format_seconds(max(0.0, seconds.value)) if seconds is not None else "unknown"


def _against(found: Explained, states: GroupRuns, verdict: Verdict) -> Iterator[Fact]:
    alike = "same user, program, processes; bytes within 25%"
    yield Fact("similar_runs", "similar runs", verdict.n, "count", note=alike)
    if verdict.usual is None:
        return
    others = _others(states.io_seconds, found.this)
    slower = float(np.mean(others < verdict.io_seconds)) if len(others) else None
    yield Fact("usual_io_seconds", "usual I/O time", verdict.usual.value, "seconds", note="at the system's usual state")
    if slower is not None:
        times = f", {format_value(found.slowdown, 'factor')} their median" if math.isfinite(found.slowdown) else ""
        note = f"slower than {slower:.0%} of them{times}"
        yield Fact("this_run", "this run", verdict.io_seconds, "seconds", slower, note)
    least = "15%, or twice the usual spread"
    yield Fact("harm_seconds", "slowdown counted from", verdict.harm_seconds, "seconds", note=least)


def _others(values: NDArray[Any], this: int) -> Floats:
    rest = np.delete(np.asarray(values, np.float64), this)
    return rest[np.isfinite(rest)]


def _measures(found: Explained, states: GroupRuns) -> list[tuple[str, str, Floats, str]]:
    """What the system did and how slow it was for others: name, what a person reads, values and unit."""
    if found.system is None:
        return []
    during = found.system.floats("d_d_seconds")
    table = [
        (f"others_{verb}", f"others {verb}",
         quotient(np.asarray(found.system.array(f"others_io_high_{verb}_bytes")), during), "bytes_per_s")
        for verb in ("read", "write")
    ]  # fmt: skip
    if TARGETS in states.states:
        table.append(("own_targets", "on its targets", states.states[TARGETS], "bytes_per_s"))
    if OPERATIONS in states.states:
        table.append(("others_operations", "others' operations", states.states[OPERATIONS], "ops_per_s"))
    for name, label in _SLOWDOWNS.items():
        if name in states.slowdowns and np.isfinite(states.slowdowns[name]).any():
            table.append((name, label, np.exp(states.slowdowns[name]), "ratio"))
    if "sick_count" in found.system and np.any(found.system.array("sick_count")):
        table.append(("unhealthy_components", "unhealthy components", found.system.floats("sick_count"), "count"))
    # Others are the system without the run, and the two are counted by different clocks: below zero there is nothing.
    return [(name, label, np.maximum(values, 0.0), unit) for name, label, values, unit in table]


def _meanwhile(found: Explained, states: GroupRuns) -> Iterator[Fact]:
    for name, label, values, unit in _measures(found, states):
        here, others = float(values[found.this]), _others(values, found.this)
        if not np.isfinite(here):
            continue
        history = found.week_before.get(_IN_SERIES.get(name, ""), np.zeros(0))
        shares = {"the past week": _share_below(here, history), "similar runs": _share_below(here, others)}
        of, share = next(((of, share) for of, share in shares.items() if share is not None), ("", None))
        note = f"above {share:.0%} of {of}" if share is not None else ""
        value, shown_as = (f"{here:.2f}x usual", "text") if unit == "ratio" else (here, unit)
        yield Fact(name, label, value, shown_as, share, note)


def _share_below(value: float, others: Floats) -> float | None:
    return float(np.mean(others < value)) if len(others) >= LEAST_RUNS else None


def _split(verdict: Verdict) -> Iterator[Fact]:
    if verdict.usual is None or verdict.system is None or verdict.own is None or verdict.unexplained is None:
        return
    system, own, rest = attributed(verdict)
    usual = min(verdict.usual.value, verdict.io_seconds)
    parts = (
        ("usual", "as usual", usual, f"range {_range(verdict.usual)}"),
        ("system", "the system", system, _range(verdict.system)),
        ("own", "what it did differently", own, _range(verdict.own)),
        ("unexplained", "unexplained", rest, f"{_range(verdict.unexplained)}"),
    )
    for name, label, value, note in parts:
        yield Fact(name, label, value, "seconds", value / verdict.io_seconds if verdict.io_seconds else None, note)


def _range(part: Seconds) -> str:
    """Nobody took fewer seconds than none."""
    return f"{format_seconds(max(0.0, part.low))} to {format_seconds(max(0.0, part.high))}"


def _findings(found: Explained, verdict: Verdict) -> Iterator[Finding]:
    changes = _changes(found, verdict)
    if verdict.kind == "unknown":
        yield Finding(_what_would_help(verdict), "undecided", "what_would_help")
    elif verdict.probabilities:
        rest = {kind: p for kind, p in verdict.probabilities.items() if kind != verdict.kind and p >= 0.01}
        if rest:
            listed = ", ".join(f"{kind} ({p:.0%})" for kind, p in rest.items())
            yield Finding(f"Other possibility: {listed}.", name="other_possibilities")
    if changes:
        yield Finding(f"This run differs from similar runs: {'; '.join(difference_words(changes))}.", name="changed")
    elif verdict.kind == "unexplained":
        text = "Its I/O pattern matches the similar runs; the log does not show what slowed it."
        yield Finding(text, "undecided", "unchanged")
    sure = ("" if item.probability is None else f" (probability {item.probability:.0%})" for item in found.unhealthy)
    causes = list(dict.fromkeys(item.cause + words for item, words in zip(found.unhealthy, sure, strict=True)))
    if causes:
        more = f"; and {len(causes) - _MOST_NOTES} more" if len(causes) > _MOST_NOTES else ""
        yield Finding(
            f"Unhealthy components during the run: {'; '.join(causes[:_MOST_NOTES])}{more}.",
            name="unhealthy_components",
        )
    if verdict.kind in ("system", "both", "you") and verdict.harm_seconds is not None and verdict.system is not None:
        yield Finding(_turning_point(verdict), name="turning_point")


def _changes(found: Explained, verdict: Verdict) -> tuple[Change, ...]:
    if not verdict.changed:
        return ()
    table = patterns_of(found.runs)
    return differences(table[found.this], usual_pattern(np.delete(table, found.this, axis=0)), verdict.changed)


def _what_would_help(verdict: Verdict) -> str:
    if verdict.reason is Reason.FEW_SIMILAR_RUNS:
        return f"A verdict needs {LEAST_RUNS} or more similar runs with samples of the system: ingest earlier logs."
    if verdict.reason is Reason.COARSE_SAMPLES:
        return "Finer samples of the system (block devices every second, Lustre every 5 s) would decide it."
    if verdict.reason is Reason.PARTLY_SAMPLED:
        return "Samples of the system over the whole run would decide it."
    if verdict.reason is Reason.NO_SYSTEM_DATA:
        return _remedy("no samples of it")
    if verdict.reason is Reason.COST_NOT_KNOWN:
        return "More runs with that change, of any program, would say what it costs."
    return f"The likeliest is {verdict.likeliest} ({verdict.probability:.0%}); more similar runs would sharpen it."


def _turning_point(verdict: Verdict) -> str:
    """What would change the verdict, in seconds."""
    assert verdict.harm_seconds is not None
    harm = format_seconds(verdict.harm_seconds)
    if verdict.kind == "system":
        return f'The verdict would change to "both" if its own change cost {harm} or more (now {_amount(verdict.own)}).'
    if verdict.kind == "you":
        return f'The verdict would change to "both" if the system took {harm} or more (now {_amount(verdict.system)}).'
    return f'The verdict would change to "system" if its own change cost less than {harm} (now {_amount(verdict.own)}).'


def _caveats(verdict: Verdict) -> Iterator[str]:
    yield "The verdict compares the run with similar runs; whether all of them could be faster is advice."
    yield "Ranges are 90% intervals. Unexplained is what nothing that was measured accounts for."
    if verdict.kind == "both":
        yield "A busy system and an unusual pattern multiply: what they do together is divided evenly."
    if verdict.pooled and verdict.n < _FEW_RUNS:
        yield f"With {verdict.n} similar runs much of it comes from {verdict.pooled} runs of other programs."
    if verdict.changed and verdict.kind in ("you", "both"):
        yield f"What the change costs is estimated from {verdict.changed_alike} other runs with such a change."


def _coverage(found: Explained, verdict: Verdict) -> Coverage:
    if found.system is None:
        return Coverage(1, 0, "runs with samples of the system", {"no system data": 1})
    states = found.system.text("state").tolist()
    others = [state for i, state in enumerate(states) if i != found.this]
    left = {state: others.count(state) for state in ("gap", "outside") if others.count(state)}
    share = f"this run: {verdict.coverage_ratio:.0%} sampled, every {format_seconds(found.step_seconds)}"
    return Coverage(len(others), len(others) - sum(left.values()), "similar runs with samples throughout", left, share)


def _umami(found: Explained, states: GroupRuns) -> Iterator[Exhibit]:
    metrics: dict[str, Floats] = {
        "I/O time [s]": states.io_seconds,
        "rate [GiB/s]": found.runs.floats("bytes_per_s") / GIB,
    }
    for _, label, values, unit in _measures(found, states):
        scale, unit_name = _UMAMI_UNITS[unit]
        metrics[f"{label} [{unit_name}]"] = values / scale
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
            Estimate(f"median: {label}", q50, "", q25, q75, 0.5, len(others), "quartiles of the similar runs")
        )
    if not rows:
        return
    table = ResultTable.of("among_like_runs", "metric [text]; time [time_ns]; value; this; q25; q50; q75", rows)
    chart = Chart.of("umami", table, "metric x=time y=value this q25 q50 q75", "This run among similar runs")
    yield Exhibit("why.umami", "This run among similar runs", charts=(chart,), estimates=tuple(estimates))
