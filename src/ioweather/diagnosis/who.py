"""`who`: which jobs and users slowed others, beside one run or in a period, and who does the most I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from ioweather.core.choices import CLUSTER, UID
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.results import (
    Answer,
    Block,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Next,
    ResultTable,
    columns_of,
    largest_facts,
    number_names,
)
from ioweather.core.units import format_seconds, format_time_ns
from ioweather.diagnosis import verdict_wording as wording
from ioweather.diagnosis.blame import (
    NAMED_FROM,
    Activity,
    Party,
    Slowed,
    TotalBlame,
    Volume,
    WithoutJob,
    blame,
    sum_blames,
)
from ioweather.diagnosis.blame_query import estimate_without, find_activity, known_ratio_around, read_slowed_run
from ioweather.diagnosis.similar_runs import read_conditions, similar_runs, snapshot_to_judge_on
from ioweather.job_io.outcomes import Gain, Storm, Talker, WhatIfOutcome, WhoOutcome, WhyOutcome
from ioweather.job_io.view import JOB_ID, LOG_TABLES, JobView, find_job
from ioweather.lake.lake import Snapshot
from ioweather.topics.source import DataSource


def who_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Jobs that cost others time; without any, or by user, project or program, who does the most I/O."""
    result = answer.result
    assert isinstance(result, WhoOutcome)
    did = [f.text.partition(": ")[2] for f in answer.findings if f.name.startswith("did_")]
    rows = []
    for number, each in enumerate(result.culprits[:5]):
        doing = did[number].partition(" Ask ")[0].removeprefix("It ").rstrip(".") if number < len(did) else ""
        doing, _, where = doing.partition(": ")
        doing = ", ".join(filter(None, (doing, where.split(", ")[0])))
        name = str(each.job_id) if each.job_id is not None else each.program or "another job"
        rows.append(
            (
                name,
                each.user or "",
                each.seconds,
                None if each.probability is None else round(each.probability, 2),
                doing,
            )
        )
    if rows and (params["by"] == "job" or not result.talkers):
        columns = "job [text]; user [text]; cost: cost others [seconds]; sure [ratio]; doing [text]"
        yield ResultTable.of("culprits", columns, rows)
    else:
        yield from (largest_facts(group, 5) for group in answer.facts if group.name == "beside")
        moved = [(_talker_name(t), t.read_bytes, t.write_bytes, t.bytes_ratio) for t in result.talkers[:5]]
        if moved:
            columns = f"who: {params['by']} [text]; read [bytes]; written [bytes]; share: of logged bytes [ratio]"
            yield ResultTable.of("talkers", columns, moved, f"Most I/O{_on(result.filesystem)}, by {params['by']}")
    yield from (largest_facts(group, 3) for group in answer.facts if group.name == "storms")
    said = {"known", "unplaced"} | ({"tell_1"} if result.about == "run" else set())
    yield from (f for f in answer.findings if f.name in said)
    first = next((each.job_id for each in result.culprits if each.job_id is not None), None)
    yield Next(f"ioweather who --without {first}" if first is not None else "ioweather health")


_MOST_TALKERS: Final = 10
_MOST_CULPRITS: Final = 5
_MOST_STORMS: Final = 5
_MOST_GAINS: Final = 10
_GROUPINGS: Final = ("job", "user", "project", "program")
# A run feels the absence of a job from this share of its I/O time on.
_LEAST_FELT: Final = 0.001
_KNOWN_BY: Final = {"servers": "server counters", "log": "its Darshan log"}
_CAVEATS: Final = (
    f"Jobs are named if their probability is at least {NAMED_FROM:.0%}. A job's cost cannot exceed its work on the "
    "targets that the slowed run waited for.",
)
_CULPRIT_COLUMNS: Final = columns_of(
    "job_id: job [text]; user [text]; project [text]; program [text]; probability [ratio]; "
    "seconds: cost others [seconds]; low: at least [seconds]; high: at most [seconds]; runs [count]; "
    "bytes_ratio: share of bytes [ratio]; "
    "operations_ratio: of operations [ratio]; target: most on [text]; target_ratio: of its work [ratio]; "
    "known_by [text]"
)
_TALKER_COLUMNS: Final = columns_of(
    "job_id: job [text]; user [text]; project [text]; program [text]; read_bytes: read [bytes]; "
    "write_bytes: written [bytes]; metadata_operations: metadata ops [count]; bytes_ratio: of logged bytes [ratio]; "
    "metadata_ratio: of logged metadata [ratio]; known_by [text]"
)


def run(source: DataSource, params: Params) -> Answer:
    """Who slowed a run or the runs of a period; or what runs would have taken without a job."""
    snapshot, job = source.snapshot, params.get("job")
    if params["without"] is not None or "job" not in params:
        return _answer_without(estimate_without(snapshot, params, source.period_ns))
    if job is not None and (JOB_ID.fullmatch(job) or (source.reads_files and Path(job).is_file())):
        return _answer_run(snapshot, find_job(source, params, job), params["filesystem"])
    return _answer_period(find_activity(snapshot, params, source.period_ns), params)


def _answer_without(found: WithoutJob) -> Answer:
    """The answer to `--without JOB`."""
    saved = found.saved.value or 0.0
    low, high = sorted(abs(each or 0.0) for each in (found.saved.low, found.saved.high))
    before = sum(seconds for _, seconds, _ in found.runs)
    headline = (
        f"Without {wording.name_job(found.party)}, the I/O of {len(found.runs):,} other runs would have taken "
        f"{format_seconds(abs(saved))} {'less' if saved >= 0 else 'more'} ({format_seconds(low)} to "
        f"{format_seconds(high)}) than the actual {format_seconds(before)}."
    )
    felt = [each for each in found.runs if abs(each[2]) > _LEAST_FELT * max(each[1], 1e-9)]
    shown = sorted(felt, key=lambda each: -abs(each[2]))[:_MOST_GAINS]
    facts = number_names(
        Fact("run", wording.name_job(party), gain, "seconds", min(1.0, abs(gain) / took), f"of {format_seconds(took)}")
        for party, took, gain in shown
    )
    without = WhatIfOutcome(
        change="without",
        job_id=found.party.job_id,
        filesystem=found.filesystem,
        start_ns=found.start_ns,
        end_ns=found.end_ns,
        runs=len(found.runs),
        before_seconds=before,
        after_seconds=before - saved,
        seconds=saved,
        low=found.saved.low,
        high=found.saved.high,
        gains=tuple(Gain(party.job_id, party.user, took, gain) for party, took, gain in shown),
    )
    return Answer(
        "What if this job had not run?",
        headline,
        (FactGroup("runs", "Time saved per run", facts),) if facts else (),
        name="who",
        coverage=(Coverage(len(found.runs), len(felt), "logged runs that this job affected"),),
        caveats=("Ranges are 90% intervals. The job itself and runs without a log are excluded.",),
        result=WhoOutcome("period", found.filesystem, found.start_ns, found.end_ns, without=without),
    )


def _answer_run(snapshot: Snapshot, view: JobView, filesystem: str | None) -> Answer:
    """Who slowed the main run of the view."""
    question, row = f"Who slowed {view.label}?", view.main_run
    start, end = (int(view.job_io.ints(name)[row]) for name in ("start_ns", "end_ns"))
    try:
        rows = snapshot_to_judge_on(snapshot, view)
        similar = similar_runs(view, rows)
        state = read_conditions(similar, rows, filesystem=filesystem)
        slowed = read_slowed_run(snapshot, similar, state.filesystem)
    except DataUnavailable as error:
        return Answer(
            question,
            f"Unknown: {error.message or 'no storage samples'}.",
            name="who",
            coverage=(Coverage(1, 0, "runs with system samples", {"no system data": 1}),),
            result=WhoOutcome("run", None, start, end),
        )
    known_ratio = known_ratio_around(snapshot, state.filesystem, start, end)
    verdict = wording.explain(view, state).result
    assert isinstance(verdict, WhyOutcome)
    run = wording.with_usual_of_verdict(slowed, verdict)
    found = wording.find_culprits(run)
    lost = None if run.usual.value is None else max(0.0, run.io_seconds - run.usual.value)
    evidence: Literal["servers", "logs", "none"] = "servers" if run.has_servers else "logs" if run.suspects else "none"
    if lost is None:
        headline = "Unknown: too few similar runs to estimate the usual I/O time."
    elif found:
        headline = wording.describe_without(run, found[0].worst)
    else:
        headline = wording.describe_one_of_two(run) or f"No culprit found: {wording.why_no_culprit(run, known_ratio)}."
    advice = (
        f"{wording.name_job(each.party, begins=True)}: {wording.advise_owner(each.worst.suspect)}"
        for each in found[:_MOST_CULPRITS]
    )
    findings = [
        *wording.culprit_findings(run, found),
        *(Finding(text, name=f"tell_{number}") for number, text in enumerate(advice, 1)),
    ]
    if known_ratio is not None:
        share = f"{known_ratio:.0%} of the traffic{_on(state.filesystem)}"
        text = f"Logged jobs account for {share} in the hours around the run."
        findings.append(Finding(text, name="known"))
    facts = number_names(_active_jobs(run))
    return Answer(
        question,
        headline,
        (FactGroup("beside", "Active during the run", facts),) if facts else (),
        name="who",
        exhibits=(_culprit_table(found),),
        findings=tuple(findings),
        caveats=_CAVEATS,
        coverage=(Coverage(1, 1, "runs with system samples"),),
        result=WhoOutcome(
            about="run",
            filesystem=state.filesystem,
            start_ns=start,
            end_ns=end,
            culprits=tuple(map(wording.as_culprit, found)),
            users=tuple(map(wording.as_culprit, sum_blames([blame(run)], lambda party: party.user))),
            io_seconds=run.io_seconds,
            lost_seconds=lost,
            runs=1,
            slowed=int(run.is_slow),
            known_ratio=known_ratio,
            evidence=evidence,
        ),
    )


def _active_jobs(run: Slowed) -> Iterator[Fact]:
    """The jobs that cost the targets of the run most seconds during its I/O, with their bytes."""
    most_active = sorted(run.suspects, key=lambda each: -(each.data_seconds + each.metadata_seconds))
    for each in most_active[:_MOST_CULPRITS]:
        note = f"{each.metadata_operations:,.0f} metadata operations; from {_KNOWN_BY[each.evidence]}"
        moved = each.read_bytes + each.write_bytes
        yield Fact("active", wording.name_job(each.party), moved, "bytes", each.bytes_ratio, note)


def _storm_facts(storms: Sequence[tuple[Party, Storm]]) -> Iterator[Fact]:
    """Operations per second of each metadata storm, and when it was."""
    for party, storm in storms:
        when = f"{format_time_ns(storm.start_ns)} to {format_time_ns(storm.end_ns)}"
        share = min(1.0, storm.capacity_ratio)
        yield Fact("storm", wording.name_job(party), storm.operations_per_s, "ops_per_s", share, when)


def _answer_period(asked: Activity, params: Params) -> Answer:
    """Which jobs and users slowed others in the period, and who did most I/O."""
    blamed = [blame(run) for run in asked.slowed]
    found = sum_blames(blamed, lambda party: party.key)
    users = sum_blames(blamed, lambda party: party.user)
    talkers = _rank_talkers(asked.volumes, params["by"])[: params["top"]]
    storms = asked.storms[:_MOST_STORMS]
    lost = sum(run.io_seconds - (run.usual.value or run.io_seconds) for run in asked.slowed)
    known_by = {volume.known_by for volume in asked.volumes}
    last_hour = (
        f" This is the last hour with jobs, {_describe_period(asked)}. Choose another period with --from and --to."
        if asked.is_last_hour
        else ""
    )
    talker_rows = tuple(tuple(getattr(each, column.name) for column in _TALKER_COLUMNS) for each in talkers)
    on = _on(asked.filesystem)
    talker_table = ResultTable("talkers", _TALKER_COLUMNS, talker_rows)
    return Answer(
        f"Who slowed others on {asked.filesystem or 'storage'}, {_describe_period(asked)}?",
        f"{_period_headline(asked, found, lost)}{last_hour}",
        (FactGroup("storms", "Metadata storms", number_names(_storm_facts(storms))),) if storms else (),
        name="who",
        findings=tuple(_period_findings(asked, found)),
        exhibits=(_culprit_table(found), Exhibit("who.talkers", f"Who does the most I/O{on}", tables=(talker_table,))),
        caveats=(*_CAVEATS, "A run without server counters is counted on the file system with most of its data."),
        coverage=(Coverage(asked.runs, len(asked.slowed), f"runs with a log{on} were slower than similar runs"),),
        result=WhoOutcome(
            about="period",
            filesystem=asked.filesystem or None,
            start_ns=asked.start_ns,
            end_ns=asked.end_ns,
            culprits=tuple(map(wording.as_culprit, found)),
            users=tuple(map(wording.as_culprit, users)),
            talkers=talkers,
            storms=tuple(each for _, each in storms),
            io_seconds=None,
            lost_seconds=lost,
            runs=asked.runs,
            slowed=len(asked.slowed),
            known_ratio=asked.known_ratio,
            evidence="servers" if "servers" in known_by else "logs" if known_by else "none",
        ),
    )


def _on(filesystem: str | None) -> str:
    return f" on {filesystem}" if filesystem else ""


def _runs(count: int) -> str:
    return f"{count:,} run{'s' if count != 1 else ''}"


def _other_runs(count: int) -> str:
    return "one other run" if count == 1 else f"{count:,} other runs"


def _describe_period(asked: Activity) -> str:
    return f"{format_time_ns(asked.start_ns)} to {format_time_ns(asked.end_ns)}"


def _period_headline(asked: Activity, found: Sequence[TotalBlame], lost: float) -> str:
    on = _on(asked.filesystem)
    if not asked.runs:
        longer = "" if asked.is_last_hour else " Choose a longer period."
        return f"Unknown: no run with a Darshan log{on} in this period.{longer}"
    if not asked.slowed:
        return f"No job slowed others: none of {_runs(asked.runs)} with a log{on} was slower than usual."
    runs = f"{len(asked.slowed):,} of {asked.runs:,} runs{on} were slowed, by {format_seconds(lost)} in all"
    if not found:
        return f"No culprit found: {runs}; no logged job accounts for it."
    first = found[0]
    cost = f"{format_seconds(first.seconds)} ({wording.say_how_sure(first.probability)})"
    return f"{wording.name_job(first.party, begins=True)} slowed {_other_runs(first.runs)} by {cost}. {runs}."


def _period_findings(asked: Activity, found: Sequence[TotalBlame]) -> Iterator[Finding]:
    """What each culprit did, and the advice to its owner."""
    for number, each in enumerate(found[:_MOST_CULPRITS], 1):
        suspect = each.worst.suspect
        work = wording.describe_work(suspect, "the run that it slowed most" if each.runs > 1 else "the slowed run")
        did = f"{work} {wording.advise_owner(suspect)}"
        yield Finding(f"{wording.name_job(each.party, begins=True)}: {did}", name=f"did_{number}")
    if len(found) > 1:
        yield Finding(wording.NOT_ADDITIVE, name="not_additive")
    if asked.known_ratio is not None:
        share = f"logged jobs account for {asked.known_ratio:.0%} of the traffic{_on(asked.filesystem)}."
        yield Finding(f"From {_describe_period(asked)} {share}", name="known")
    if asked.unplaced:
        which = f"{asked.unplaced:,} of {asked.runs:,} logs do not say on which file system they moved data"
        yield Finding(f"{which}; these are counted on every file system.", name="unplaced")


def _culprit_table(found: Sequence[TotalBlame]) -> Exhibit:
    """Culprits with their shares in the run that lost most to each."""
    rows = []
    for each in found:
        suspect = each.worst.suspect
        target = suspect.targets[0] if suspect.targets else (None, None)
        cost = (each.probability, each.seconds, each.low, each.high, each.runs)
        shares = (suspect.bytes_ratio, suspect.operations_ratio, *target, suspect.evidence)
        rows.append((*each.party.names, *cost, *shares))
    table = ResultTable("culprits", _CULPRIT_COLUMNS, tuple(rows))
    return Exhibit("who.culprits", "Jobs that slowed others", tables=(table,))


def _rank_talkers(volumes: Sequence[Volume], by: str) -> tuple[Talker, ...]:
    """Volumes added up, most bytes first, then most metadata operations; hidden parties are one row without names."""
    groups: dict[str, list[Volume]] = {}
    for volume in volumes:
        groups.setdefault("" if volume.party.hidden else f"={_group_key(volume.party, by)}", []).append(volume)
    all_bytes = sum(volume.read_bytes + volume.write_bytes for volume in volumes)
    all_operations = sum(volume.metadata_operations for volume in volumes)
    found = []
    for members in groups.values():
        read, written, operations = (
            sum(getattr(volume, name) for volume in members)
            for name in ("read_bytes", "write_bytes", "metadata_operations")
        )
        known_by = {volume.known_by for volume in members}
        party = members[0].party
        names = party.names
        if by != "job" and not party.hidden:  # jobs of a group have only its name in common
            user, project, program = (_group_key(party, by) if by == each else None for each in _GROUPINGS[1:])
            names = None, user, project, program
        found.append(
            Talker(
                *names,
                read,
                written,
                operations,
                (read + written) / all_bytes if all_bytes > 0 else None,
                operations / all_operations if all_operations > 0 else None,
                known_by.pop() if len(known_by) == 1 else "both",
            )
        )
    return tuple(sorted(found, key=lambda t: (-(t.bytes_ratio or 0.0), -t.metadata_operations, t.job_id or 0)))


def _group_key(party: Party, by: str) -> str | None:
    """Name of the job, user, project or program of a party."""
    if by == "user":
        return party.user or (f"uid {party.uid}" if party.uid is not None else party.key)
    return {"job": party.key, "project": party.project, "program": party.program}[by]


def _talker_name(talker: Talker) -> str:
    """Such as: job 4711, alice, bulkcopy."""
    names = [talker.program, talker.user or talker.project]
    if talker.job_id is not None:
        names = [f"job {talker.job_id}", talker.user, talker.program]
    return ", ".join(filter(None, names)) or "other people's jobs"


QUESTION = Question(
    name="who",
    result=WhoOutcome,
    run=run,
    tables=LOG_TABLES | {"events", "job_io", "job_operations", "responses"},
    params=(
        Param(
            "job",
            "A Darshan log, a job ID or an event ID (default: the last hour).",
            positional=True,
            metavar="LOG|JOBID|EVENT",
        ),
        Param("without", "Estimate the I/O time of other runs without this job.", "int", metavar="JOB"),
        Param("at", "Show activity around this time.", "time", metavar="TIME"),
        Param("window", "Length of that time window.", "duration", default="10m", metavar="TIME"),
        Param("filesystem", "File system (default: the busiest).", metavar="NAME"),
        Param("by", "Group I/O by this field.", default="job", choices=_GROUPINGS),
        Param("top", "Number of top entries to list.", "int", default=_MOST_TALKERS, least=1, metavar="N"),
        UID,
        CLUSTER,
    ),
    help="Show which jobs and users slowed others, by how much, and who does the most I/O.",
    epilog="""For a job: the jobs that ran at the same time, and its estimated I/O time without each of them. For an
event, a time (--at) or a period (--from, --to): the jobs that cost others the most time, and who moved the most data.
The default is the last hour with jobs in the lake. Per-job server counters (Lustre job_stats) are the best source.
Darshan logs are used if there are none. Jobs with a probability below 50% are not named.

Exit codes: 0 answered; 1 the lake has no such job; 2 unclear.

\b
Example: ioweather who 4711 --lake lake
Example: ioweather who --without 4711
Example: ioweather who --at 2026-11-01T14:00 --by user
""",
    table="culprits",
    blocks=who_screen,
)


def run_what_if(source: DataSource, params: Params) -> Answer:
    """The answer of `who --without JOB` with the result of the former question `what_if`."""
    found = run(source, params)
    assert isinstance(found.result, WhoOutcome)
    return replace(found, name="what_if", result=found.result.without)


# The former name of `who --without`; it works for one release more.
WHAT_IF = Question(
    name="what_if",
    result=WhatIfOutcome,
    run=run_what_if,
    tables=QUESTION.tables,
    params=(
        Param("without", "The job to leave out.", "int", metavar="JOB"),
        Param("filesystem", "File system (default: the busiest).", metavar="NAME"),
    ),
    help="Estimate the I/O time of other runs without a job. Same as `who --without JOB`.",
    epilog="Example: ioweather what-if --without 4711",
)
