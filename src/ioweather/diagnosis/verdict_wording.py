"""The verdict in words: what the run did, its time beside similar runs, what the system did, what follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from ioweather.core.run_outcomes import Amount, Change, Culprit, Reason, SplitSeconds, Unhealthy, WhyOutcome
from ioweather.core.units import GIB, format_bytes, format_seconds, format_value
from ioweather.diagnosis.blame import Accused, Blame, Party, Slowed, Suspect, accused, blame, one_of_two
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
from ioweather.facts.groups import program_names
from ioweather.facts.ratios import quotient
from ioweather.job_io.summary import ALWAYS_SAID, notes
from ioweather.job_io.view import JobView

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


_SMALL_REQUEST_BYTES: Final = 64 * 1024
_MOST_SENTENCES: Final = 3
NOT_ADDITIVE: Final = (
    "Seconds of several jobs need not add up: without one of two the run may still wait for the other."
)


def party_words(party: Party, *, begins: bool = False) -> str:
    """`job 4711 (alice, bulkcopy)`; of a job that may not be shown only that there was one. Where it begins a sentence,
    what is a name stays as it is."""
    if party.hidden:
        return "Another job" if begins else "another job"
    no_name = "Work without a job id" if begins else "work without a job id"
    name = (
        f"{'Job' if begins else 'job'} {party.job_id}" if party.job_id is not None else one_line(party.key) or no_name
    )
    user = party.user or (f"uid {party.uid}" if party.uid is not None else "")
    beside = ", ".join(one_line(text) for text in (user, party.program or "") if text)
    return f"{name} ({beside})" if beside else name


def sure(probability: float) -> str:
    return f"{probability:.0%} sure" if probability < 0.995 else "more than 99% sure"


def without_words(run: Slowed, found: Blame) -> str:
    """The leave-one-out sentence."""
    took, less = format_seconds(run.io_seconds), format_seconds(max(0.0, run.io_seconds - found.seconds))
    interval = f"{format_seconds(found.low)} to {format_seconds(found.high)} less"
    who = party_words(found.suspect.party)
    return f"Without {who} this run's I/O would have taken {less}, not {took} ({interval}; {sure(found.probability)})."


def pattern_words(suspect: Suspect) -> str:
    """What the job did meanwhile."""
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
    return f"It {' and '.join(done) or 'was active'}{f': {where}' if where else ''}."


def tell_words(suspect: Suspect) -> str:
    """What to tell the one whose job it is."""
    moved = suspect.read_bytes + suspect.write_bytes
    if suspect.metadata_seconds > suspect.data_seconds:
        return "Ask for fewer opens and stats: pack small files together, or do them from fewer processes at a time."
    if suspect.requests >= 1 and moved / suspect.requests < _SMALL_REQUEST_BYTES:
        return "Ask for larger requests: small ones cost the targets more than their bytes."
    if suspect.targets and suspect.targets[0][1] > 0.5 and len(suspect.targets) <= 2:
        return "Ask to stripe its files over more targets: its bytes go to few of them."
    return "Ask to move it to quieter hours, or to spread its I/O over more time."


def as_culprit(found: Blame | Accused) -> Culprit:
    party = found.party if isinstance(found, Accused) else found.suspect.party
    seconds = found.seconds, found.low, found.high
    return Culprit(party.job_id, party.user, party.project, found.probability, *seconds, party.program)


def or_by_verdict(run: Slowed, result: WhyOutcome) -> Slowed:
    """Where too few similar runs tell what is usual, as of one that did something else, its verdict may."""
    usual = result.seconds.usual
    if run.usual.value is not None or usual is None or usual.value is None or result.harm_seconds is None:
        return run
    return replace(run, usual=usual, own=result.seconds.own, harm_seconds=result.harm_seconds)


def culprits_of(run: Slowed) -> tuple[Accused, ...]:
    return tuple(each for each in accused([(run, blame(run))], lambda party: party.key) if each.may_be_named)


def with_culprits(answer: Answer, run: Slowed | None) -> Answer:
    """The verdict's answer, and who it was where the system took the seconds."""
    result = answer.result
    if run is None or not isinstance(result, WhyOutcome) or result.kind not in ("system", "both"):
        return answer
    run = or_by_verdict(run, result)
    found = culprits_of(run)
    said = replace(result, culprits=tuple(as_culprit(each) for each in found))
    return replace(answer, result=said, findings=(*findings_of(run, found), *answer.findings))


def findings_of(run: Slowed, found: Sequence[Accused]) -> Iterator[Finding]:
    either = one_of_two(run)
    if either is not None:
        one, other = (party_words(party) for party in either.parties)
        yield Finding(f"One of {one} and {other} slowed it ({sure(either.probability)}).", "note", "one_of")
    for number, each in enumerate(found[:_MOST_SENTENCES], 1):
        suspect = each.worst.suspect
        words = f"{without_words(run, each.worst)} {pattern_words(suspect)}"
        yield Finding(words, "note", f"culprit_{number}")
    if len(found) > 1:
        yield Finding(NOT_ADDITIVE, name="not_additive")


def silence_words(run: Slowed) -> str:
    """Why nobody is named."""
    suspects = run.suspects
    if not run.is_slow:
        return "it was not slowed: its I/O took as long as usual"
    if not suspects.found:
        return "no record shows another job at work beside it"
    if suspects.known_ratio is not None and suspects.known_ratio < 0.5:
        return f"{1 - suspects.known_ratio:.0%} of the load on its targets is in nobody's record"
    if suspects.on_sick and not suspects.has_servers:
        return "one of its targets was sick, and nobody counted what jobs did to it"
    if run.attributable < 0.5:
        return "runs that met as much work of others are hardly slow more often here than the rest"
    return "what the jobs beside it did does not explain the time it lost"
