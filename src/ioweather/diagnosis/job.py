"""`job`: the I/O of one job, from its log or its id, and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ioweather.core.choices import CLUSTER, JOB, PATHS, PROCESSES_PER_NODE, UID
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Answer, Block, Fact, FactGroup, Finding, Item, Items, Next, largest_facts
from ioweather.core.units import format_moment, format_seconds, format_span, format_value, one_line
from ioweather.diagnosis.jobs_without_log import RECORD_NEXT, accounting_facts, find_accounted_job, user_of
from ioweather.diagnosis.similar_runs import conditions_of_job, similar_to_job
from ioweather.diagnosis.verdict_wording import explain
from ioweather.facts.accounting import run_seconds
from ioweather.job_io.advisor.advise import ACTIONS, LEAST_RATIO, advise, advised_answer, one_per_dimension, priced
from ioweather.job_io.job_page import draw_server_traffic, page_exhibits, server_caveats, server_facts, server_headline
from ioweather.job_io.outcomes import AdviceItem, JobOutcome, Unhealthy, WhyOutcome
from ioweather.job_io.summary import ALWAYS_SAID, job_answer
from ioweather.job_io.view import LOG_TABLES, JobView, as_one_run, log_of, named_log, target_exhibit
from ioweather.topics.source import DataSource

_MOST_ADVICE: Final = 3
_NO_LOG: Final = "This job has no Darshan log: its files, processes and I/O time are unknown."
# Groups of facts on the first screen of `job`, each with its most rows.
_OF_JOB: Final = {"time": 5, "speed": 3, "files": 3, "accesses": 4}
_OF_COUNTED_JOB: Final = {
    "accounting": 8,
    "server_volume": 2,
    "server_operations": 5,
    "server_targets": 5,
}
_NOTES_OF_JOB: Final = ("record_next_time", "record_it_whole", "which_run", "slowdown", "one_process_io")
_SLOW_PLACES: Final = ("longest_wait", "longest_queue", "slowest_probe")
# Load from this share of similar runs on is shown where no component or job explains the storage's part. [ours]
_HIGH_LOAD: Final = 0.9
_NOTES_OF_WHY: Final = ("which_run", "culprit_1", "one_of", "level", "what_would_help")


def why_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """This run beside the usual one, where the extra time went, and what to do."""
    result = answer.result
    assert isinstance(result, WhyOutcome)
    if result.evidence == "accounting":
        yield from _run_time_screen(answer, result)
        return
    yield from _named_findings(answer, ALWAYS_SAID)
    took, usual = result.io_seconds, result.seconds.usual
    if took and usual is not None and usual.value is not None:
        most = max(took, usual.value)
        rank = next((f.note for g in answer.facts for f in g.facts if f.name == "this_run"), "")
        between = "" if usual.low is None or usual.high is None else _seconds_range(usual.low, usual.high)
        yield FactGroup(
            "runs",
            "",
            (
                Fact("this_run", "this run", took, "seconds", took / most, rank),
                Fact("usual", "usual", usual.value, "seconds", usual.value / most, between),
            ),
        )
        extra = took - usual.value
        if result.harm_seconds is not None and extra >= result.harm_seconds:
            yield FactGroup(
                "extra", f"Causes of the extra {format_seconds(extra)}", tuple(_extra_parts(answer, result, extra))
            )
    if steps := _advice_steps(answer, result.worth, tuple(_steps_of_verdict(result))):
        yield steps
    yield from _named_findings(answer, _NOTES_OF_WHY, ("alarm", "undecided"))


def _run_time_screen(answer: Answer, result: WhyOutcome) -> Iterator[Block]:
    """The run time beside that of similar jobs, storage during it, and how to know more next time."""
    took, usual = result.run_seconds, result.usual_run_seconds
    if took is not None and usual is not None:
        most = max(took, usual, 1e-9)
        note = next((f.note for g in answer.facts for f in g.facts if f.name == "usual_run_time"), "")
        runs = (
            Fact("this_job", "this job", took, "seconds", took / most),
            Fact("usual", "usual", usual, "seconds", usual / most, note),
        )
        yield FactGroup("runs", f"Run time compared with {result.n} similar jobs", runs)
    yield from (finding for finding in answer.findings if finding.name != "as_of")


def _seconds_range(low: float, high: float) -> str:
    return f"{format_seconds(max(0.0, low))} to {format_seconds(high)}"


def _extra_parts(answer: Answer, result: WhyOutcome, extra: float) -> Iterator[Fact]:
    """The parts of the time beyond the usual, each with its reason."""
    parts = [fact for group in answer.facts if group.name == "split" for fact in group.facts]
    split, between = {fact.name: fact.value for fact in parts}, {fact.name: fact.note for fact in parts}
    sick = [_describe_unhealthy(each) for each in result.unhealthy[:2]]
    others = [
        f"job {each.job_id or 'of another user'} ({each.probability or 0:.0%} sure)" for each in result.culprits[:2]
    ]
    places = [finding.text for finding in answer.findings if finding.name in _SLOW_PLACES]
    no_cause = "no single cause found" if split.get("system") else ""
    loads = [fact for g in answer.facts if g.name == "system" for fact in g.facts if fact.unit.endswith("_per_s")]
    share, load = max(((fact.share or 0.0, fact) for fact in loads), key=lambda each: each[0], default=(0.0, None))
    if no_cause and load is not None and share >= _HIGH_LOAD:
        no_cause += f"; load: {load.label} {format_value(load.value, load.unit)}, {load.note}"
    reason = "; ".join(sick) or ", ".join(others) or " ".join(places) or no_cause
    change = next((finding.text for finding in answer.findings if finding.name == "changed"), "")
    # Where the model cannot exclude that the run's change cost as much as a slowdown, its cost is not 0 but not known.
    own, harm = result.seconds.own, result.harm_seconds or 0.0
    is_open = own is not None and own.high is not None and own.high >= harm
    is_unpriced = is_open and bool(result.changed) and "unexplained" in (result.kind, result.likeliest)
    for name, label, note in (
        ("system", "storage", reason),
        ("own", "your job", change or "requests, files and sizes match similar runs"),
        ("unexplained", "not explained", ""),
    ):
        value = split.get(name)
        if not isinstance(value, float):
            continue
        is_small = value <= LEAST_RATIO * extra
        if name == "own" and is_unpriced and is_small:
            yield Fact(name, label, "unknown cost", note=note)
        elif name != "unexplained" or not is_small:
            low, _, high = between[name].partition(" to ")
            said = "; ".join(filter(None, (note.rstrip("."), f"range {between[name]}" if low != high else "")))
            yield Fact(name, label, value, "seconds", note=said)


def _describe_unhealthy(each: Unhealthy) -> str:
    sure = f" ({each.probability:.0%} sure)" if each.probability is not None else ""
    return f"{each.cause}, {format_span(each.start_ns, each.end_ns)}{sure}"


def _steps_of_verdict(result: WhyOutcome) -> Iterator[Item]:
    """What follows if storage was slow: when to run again, and that the program needs no change."""
    usual = result.seconds.usual
    if result.kind != "system" or usual is None or usual.value is None:
        return
    expect, sick = f"expect about {format_seconds(usual.value)} of I/O", [s for s in result.unhealthy if s.component]
    ill = next((each.component for each in sick if each.end_ns is None), None)
    if ill is not None:
        yield Item("", f"Run it again when {ill} is healthy (`ioweather health`); {expect}.")
    elif sick:
        last = max(sick, key=lambda each: each.end_ns or 0)
        yield Item(
            "", f"Run it again: the problem of {last.component} ended {format_moment(last.end_ns or 0)}; {expect}."
        )
    else:
        yield Item("", f"Run it again at another time; {expect}.")
    if not result.changed:
        yield Item("", f"Do not change the program for this: it did what its {result.n} similar runs did.")


def _advice_steps(answer: Answer, worth: Sequence[AdviceItem], first: tuple[Item, ...] = ()) -> Items | None:
    """What to do: `first`, then what to change, one of each dimension; the title has the saving of all changes."""
    if not worth and not first:
        return None
    shown, title = one_per_dimension(worth)[:_MOST_ADVICE], "What to do"
    items = [*first]
    for each in shown:
        where = f" ({each.file})" if each.file and each.file not in each.headline else ""
        evidence, _, _ = each.evidence.partition(";")
        of_site = f". Your site: {each.note}" if each.note else ""
        do = ACTIONS.get(each.name) or each.headline
        do = f"Worth doing anyway: {do[:1].lower()}{do[1:]}" if first else do
        text = f"{do}{where}. S{_describe_saving(each)[1:]}. {evidence[:1].upper()}{evidence[1:]}{of_site}"
        items.append(Item("", text, note="".join(each.fix[:1])))
    left = len(worth) - len(shown)
    _, _, together = next((g.title for g in answer.facts if g.name == "advice"), "").partition("; together ")
    title += f" (each alone; together {together.partition(';')[0]})" if together and not first else ""
    return Items(title, tuple(items), numbered=True, more=f"{left} more: --json" if left else "")


def _describe_saving(each: AdviceItem) -> str:
    """The expected saving with its interval; "up to" where no such change was measured."""
    if not each.seconds:
        return f"saves up to {format_seconds(each.high)}"
    between = f" ({_seconds_range(each.low, each.high)})" if each.high > each.low else ""
    if between and each.low <= 0:
        between = f" (perhaps nothing, at most {format_seconds(each.high)})"
    return f"saves about {format_seconds(each.seconds)}{between}"


def _named_findings(answer: Answer, names: Sequence[str], kinds: Sequence[str] = ()) -> Iterator[Block]:
    yield from (f for f in answer.findings if f.name in names or (f.kind in kinds and f.name not in ALWAYS_SAID))


def job_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Yield the terminal's blocks: gaps in the log, where the time went, what to change, notes, the next command."""
    result = answer.result
    assert isinstance(result, JobOutcome)
    yield from _named_findings(answer, ALWAYS_SAID)
    most_facts = _OF_JOB if result.logs else _OF_COUNTED_JOB
    groups = {group.name: group for group in answer.facts}
    for name, most in most_facts.items():
        if name in groups and (shown := largest_facts(groups[name], most)).facts:
            yield shown
    if steps := _advice_steps(answer, result.worth):
        yield steps
    yield from _named_findings(answer, ("nothing_to_change",))
    if others := groups.get("seen"):
        names = ", ".join(fact.label for fact in others.facts)
        yield Finding(f"{others.title}: {names}.", name="also_seen")
    notes = _NOTES_OF_JOB if result.worth else tuple(name for name in _NOTES_OF_JOB if name != "one_process_io")
    yield from _named_findings(answer, notes, ("alarm", "undecided"))
    yield Next(f"ioweather why {params['job']}", "My job or the storage" if result.logs else "Was storage slow")


def _accounted_job_answer(source: DataSource, params: Params) -> Answer | None:
    """The answer to `job` without a log: accounting, and the servers' counts if there are any."""
    found = source.shared(find_accounted_job, params)
    if found is None:
        return None
    job, counted = found
    row = job.records()[0]
    user, name = user_of(row), one_line(row["name"] or "")
    seconds = float(run_seconds(job)[0])
    known = JobOutcome(
        job_id=row["raw_job_id"],
        user=user,
        project=source.facility.project_of(account=row["account"], uid=row["uid"], exe=None),
        program=name,
        logs=0,
        nodes=row["node_count"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"] or row["start_ns"],
        run_seconds=seconds if math.isfinite(seconds) else None,
        read_bytes=None if counted is None else counted.read_bytes,
        write_bytes=None if counted is None else counted.write_bytes,
    )
    about = accounting_facts(row)
    if counted is None:
        took = "is still running" if row["end_ns"] is None else f"ran {format_seconds(seconds)}"
        headline = f"Job {row['job_id']} ({name or 'unnamed'}, user {user}) {took}; it has no Darshan log."
        return Answer("job", headline, (about,), findings=(RECORD_NEXT,), caveats=(_NO_LOG,), result=known)
    exhibits = (draw_server_traffic(counted),) if params["detail"] else ()
    facts, caveats = (about, *server_facts(counted)), (_NO_LOG, *server_caveats(counted))
    return Answer("job", server_headline(row["job_id"], counted), facts, exhibits, caveats=caveats, result=known)


def run(source: DataSource, params: Params) -> Answer:
    """The I/O of the job, from its logs; without one, accounting and what servers counted of it."""
    try:
        log = named_log(source, params)
    except DataUnavailable:
        answer = _accounted_job_answer(source, params)
        if answer is None:
            raise
        return answer
    view, judged = as_one_run(log), _verdict_from_lake(source, params, log)
    found, advised = job_answer(view), advise(view)
    if judged is not None and log.facility == source.facility:  # not by the runs of another site
        advised = priced(advised, judged)
    if judged is not None and judged.slowness is not None and isinstance(found.result, JobOutcome):
        times = format_value(judged.slowness, "factor")
        text = f"Its I/O took {times} the median time of similar runs. See `ioweather why {params['job']}`."
        result = replace(found.result, slowness=judged.slowness)
        found = replace(found, findings=(Finding(text, name="slowdown"), *found.findings), result=result)
    if params["detail"]:
        found = replace(found, exhibits=(*page_exhibits(view, log_of(source, log)), *target_exhibit(view)))
    return advised_answer(found, advised)


def _verdict_from_lake(source: DataSource, params: Params, log: JobView) -> WhyOutcome | None:
    """Return what `why` says of the run, if a lake was named or is open."""
    if source.has_lake:
        with suppress(DataUnavailable):
            similar_to_job(source, params)
            result = explain(log, conditions_of_job(source, params)).result
            assert isinstance(result, WhyOutcome)
            return result
    return None


QUESTION = Question(
    name="job",
    result=JobOutcome,
    run=run,
    tables=LOG_TABLES | {"events", "job_io", "job_operations", "responses"},
    params=(
        JOB,
        PROCESSES_PER_NODE,
        PATHS,
        UID,
        CLUSTER,
        Param("detail", "Show all modules and mounts, and the largest files.", "flag", default=True, shown=False),
    ),
    help="Show the I/O of one job on one screen: time, speed, files, accesses and activity.",
    epilog="""Logs are read in place. No lake is needed and no files are written. With --lake, the nodes come from
accounting. For a job ID, the run with the most I/O time is shown. Without a log, accounting data and server counters
are shown. --json and --html also include each target's share.

Exit codes: 0 shown; 1 no such job in the lake; 2 not a log, or ambiguous.

\b
Example: ioweather job run.darshan --html run.html
""",
    screen={"detail": False},
    blocks=job_screen,
)
