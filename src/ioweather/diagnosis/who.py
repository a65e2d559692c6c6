"""`who`: which jobs and users slowed others, beside one run or in a period, and who does most I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.outcomes import Gain, Storm, Talker, WhatIfOutcome, WhoOutcome
from ioweather.core.question_parameters import UID
from ioweather.core.results import (
    Answer,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    ResultTable,
    columns_of,
    numbered,
)
from ioweather.core.run_outcomes import WhyOutcome
from ioweather.core.units import format_bytes, format_seconds, format_time_ns
from ioweather.diagnosis.blame import NAMED_FROM, Accused, Party, accused, blame
from ioweather.diagnosis.culprit_wording import (
    NOT_ADDITIVE,
    as_culprit,
    culprits_of,
    findings_of,
    or_by_verdict,
    party_words,
    pattern_words,
    silence_words,
    sure,
    tell_words,
    without_words,
)
from ioweather.diagnosis.job_activity_in_period import Activity, MetadataStorm, RunAsked, Volume
from ioweather.diagnosis.suspects import activity
from ioweather.diagnosis.verdict_wording import explain
from ioweather.diagnosis.without_job import Supposed, gains, saved
from ioweather.job_io.job_source import LOG_TABLES
from ioweather.topics.source import DataSource

_MOST_TALKERS: Final = 10
_MOST_CULPRITS: Final = 5
_MOST_STORMS: Final = 5
_MOST_GAINS: Final = 10
_NAMES: Final = {"job": "job", "user": "user", "project": "project", "program": "program"}


def run(source: DataSource, params: Params) -> Answer:
    """Who slowed a run or the runs of a period; or what runs would have taken without a job."""
    asked = activity(source, params)
    if isinstance(asked, Supposed):
        return _without(asked)
    found = _of_run(asked) if isinstance(asked, RunAsked) else _of_period(asked, params)
    return found if params["detail"] else replace(found, exhibits=())


def _of_run(asked: RunAsked) -> Answer:
    question = f"Who slowed {asked.view.label}?"
    row = asked.view.main_run
    start, end = (int(asked.view.job_io.ints(name)[row]) for name in ("start_ns", "end_ns"))
    if asked.found is None or asked.run is None:
        return Answer(
            question,
            f"Unknown: {asked.lacking or 'no samples of the system'}.",
            name="who",
            coverage=(Coverage(1, 0, "runs with samples of the system", {"no system data": 1}),),
            result=WhoOutcome("run", None, start, end),
        )
    said = explain(asked.view, row, asked.found).result
    assert isinstance(said, WhyOutcome)
    run = or_by_verdict(asked.run, said)
    suspects, found = run.suspects, culprits_of(run)
    lost = None if run.usual.value is None else max(0.0, run.io_seconds - run.usual.value)
    evidence: Literal["servers", "logs", "none"] = (
        "servers" if suspects.has_servers else "logs" if suspects.found else "none"
    )
    findings = [*findings_of(run, found), *_told(found)]
    if suspects.known_ratio is not None:
        text = f"Records of jobs explain {suspects.known_ratio:.0%} of what its targets did meanwhile."
        findings.append(Finding(text, name="known"))
    if lost is None:
        headline = "Unknown: too few similar runs tell what is usual."
    elif found:
        headline = without_words(run, found[0].worst)
    else:
        headline = f"Nobody is named: {silence_words(run)}."
    beside = sorted(suspects.found, key=lambda each: -(each.data_seconds + each.metadata_seconds))[:_MOST_CULPRITS]
    facts = numbered(
        Fact("active", party_words(each.party), each.read_bytes + each.write_bytes, "bytes", each.bytes_ratio,
             f"{each.metadata_operations:,.0f} metadata operations; by its {_KNOWN_BY[each.evidence]}")
        for each in beside
    )  # fmt: skip
    return Answer(
        question, headline, (FactGroup("beside", "Active beside it", facts),) if facts else (), name="who",
        exhibits=(_culprit_table(found),), findings=tuple(findings), caveats=_CAVEATS,
        coverage=(Coverage(1, 1, "runs with samples of the system"),),
        result=WhoOutcome(
            "run", suspects.filesystem, start, end, tuple(map(as_culprit, found)),
            tuple(map(as_culprit, accused([(run, blame(run))], lambda party: party.user))), io_seconds=run.io_seconds,
            lost_seconds=lost, runs=1, slowed=int(run.is_slow),
            known_ratio=suspects.known_ratio, evidence=evidence,
        ),
    )  # fmt: skip


_KNOWN_BY: Final = {"servers": "servers' counts", "log": "Darshan log", "usual": "usual I/O"}
_CAVEATS: Final = (
    f"A job is named from a probability of {NAMED_FROM:.0%} on. What it cost is at most its work on the targets that "
    "the slowed run waited for.",
)


def _told(found: Sequence[Accused]) -> Iterator[Finding]:
    for number, each in enumerate(found[:_MOST_CULPRITS], 1):
        text = f"To {party_words(each.party)}: {tell_words(each.worst.suspect)}"
        yield Finding(text, name=f"tell_{number}")


def _of_period(asked: Activity, params: Params) -> Answer:
    blamed = [(run, blame(run)) for run in asked.slowed]
    found = accused(blamed, lambda party: party.key)
    users = accused(blamed, lambda party: party.user)
    talkers = _talkers(asked.volumes, params["by"])[: params["top"]]
    lost = sum(run.io_seconds - (run.usual.value or run.io_seconds) for run in asked.slowed)
    when = _when(asked)
    by = {volume.known_by for volume in asked.volumes}
    facts = [
        FactGroup("culprits", "Seconds that jobs cost others", tuple(_cost_facts(found))),
        FactGroup("users", "The same by user", tuple(_user_facts(users))),
        FactGroup("talkers", f"Most I/O, by {_NAMES[params['by']]}", tuple(_talker_facts(talkers))),
        FactGroup("storms", "Metadata storms", tuple(_storm_facts(asked))),
    ]
    return Answer(
        f"Who slowed others on {asked.filesystem or 'storage'}, {when}?",
        f"{_headline(asked, found, lost)}{_which_hour(asked)}",
        tuple(group for group in facts if group.facts), name="who", findings=tuple(_findings(asked, found)),
        exhibits=(_culprit_table(found), _talker_table(talkers)), caveats=_CAVEATS,
        coverage=(Coverage(asked.runs, len(asked.slowed), "runs with a log that took longer than similar runs"),),
        result=WhoOutcome(
            "period", asked.filesystem or None, asked.start_ns, asked.end_ns, tuple(map(as_culprit, found)),
            tuple(map(as_culprit, users)), talkers, tuple(map(_storm, asked.storms[:_MOST_STORMS])), None, lost,
            asked.runs, len(asked.slowed), asked.known_ratio,
            "servers" if "servers" in by else "logs" if by else "none",
        ),
    )  # fmt: skip


def _runs(count: int) -> str:
    return f"{count:,} run{'s' if count != 1 else ''}"


def _when(asked: Activity) -> str:
    return f"{format_time_ns(asked.start_ns)} to {format_time_ns(asked.end_ns)}"


def _headline(asked: Activity, found: Sequence[Accused], lost: float) -> str:
    if not asked.runs:
        return "Who slowed others cannot be told: no run with a log in this time. Ask about a longer one."
    if not asked.slowed:
        return f"Nobody slowed others: {_runs(asked.runs)} with a log, none slower than usual."
    runs = f"{len(asked.slowed):,} of {asked.runs:,} runs lost {format_seconds(lost)}"
    if not found:
        return f"Nobody is named: {runs}, and no job's record explains it."
    first = found[0]
    others = _runs(first.runs)
    who = party_words(first.party, begins=True)
    cost = f"{format_seconds(first.seconds)} ({sure(first.probability)})"
    return f"{who} cost {others} of others {cost}; {runs}."


def _which_hour(asked: Activity) -> str:
    """Which hour is looked at where no period was chosen."""
    if not asked.is_last_hour:
        return ""
    return f" This is the last hour with jobs, {_when(asked)}; choose another period with --from and --to."


def _of_most(each: Accused, found: Sequence[Accused]) -> float:
    return each.seconds / max(most.seconds for most in found) if each.seconds else 0.0


def _cost_facts(found: Sequence[Accused]) -> Iterator[Fact]:
    yield from numbered(
        Fact("culprit", party_words(each.party), each.seconds, "seconds", _of_most(each, found),
             f"{format_seconds(each.low)} to {format_seconds(each.high)}, {_runs(each.runs)}; {sure(each.probability)}")
        for each in found[:_MOST_CULPRITS]
    )  # fmt: skip


def _user_facts(found: Sequence[Accused]) -> Iterator[Fact]:
    yield from numbered(
        Fact("user", str(each.party.user), each.seconds, "seconds", _of_most(each, found),
             f"{format_seconds(each.low)} to {format_seconds(each.high)}")
        for each in found[:_MOST_CULPRITS]
    )  # fmt: skip


def _talkers(volumes: Sequence[Volume], by: str) -> tuple[Talker, ...]:
    """Most bytes first, then most metadata operations. What may not be shown is one row without names."""
    groups: dict[str, list[Volume]] = {}
    for volume in volumes:
        groups.setdefault("" if volume.party.hidden else f"={_key(volume.party, by)}", []).append(volume)
    all_bytes = sum(volume.read_bytes + volume.write_bytes for volume in volumes)
    all_operations = sum(volume.metadata_operations for volume in volumes)
    found = [_talker(members, by, all_bytes, all_operations) for members in groups.values()]
    return tuple(sorted(found, key=lambda t: (-(t.bytes_ratio or 0.0), -t.metadata_operations, t.job_id or 0)))


def _key(party: Party, by: str) -> str | None:
    if by == "user":
        return party.user or (f"uid {party.uid}" if party.uid is not None else party.key)
    return {"job": party.key, "project": party.project, "program": party.program}[by]


def _talker(members: Sequence[Volume], by: str, all_bytes: float, all_operations: float) -> Talker:
    party = members[0].party
    read, written, operations = (
        sum(getattr(volume, name) for volume in members)
        for name in ("read_bytes", "write_bytes", "metadata_operations")
    )
    known_by = {volume.known_by for volume in members}
    shown = _shown(party, by)
    return Talker(
        shown.job_id, shown.user, shown.project, shown.program, read, written, operations,
        (read + written) / all_bytes if all_bytes > 0 else None,
        operations / all_operations if all_operations > 0 else None, known_by.pop() if len(known_by) == 1 else "both",
    )  # fmt: skip


def _shown(party: Party, by: str) -> Party:
    """Of all jobs of a user or a project only what they have in common."""
    if by == "job" or party.hidden:
        return party
    user = _key(party, by) if by == "user" else None
    return Party(
        "",
        user=user,
        project=party.project if by == "project" else None,
        program=party.program if by == "program" else None,
    )


def _talker_name(talker: Talker) -> str:
    if talker.job_id is not None:
        names = [f"job {talker.job_id}", talker.user or "", talker.program or ""]
        return ", ".join(filter(None, names))
    names = [talker.program or "", talker.user or talker.project or ""]
    return ", ".join(filter(None, names)) or "other people's jobs"


def _talker_facts(talkers: Sequence[Talker]) -> Iterator[Fact]:
    yield from numbered(
        Fact("talker", _talker_name(each), each.read_bytes + each.write_bytes, "bytes", each.bytes_ratio,
             f"{format_bytes(each.read_bytes)} read, {format_bytes(each.write_bytes)} written; "
             f"{each.metadata_operations:,.0f} metadata operations")
        for each in talkers
    )  # fmt: skip


def _storm_facts(asked: Activity) -> Iterator[Fact]:
    yield from numbered(
        Fact("storm", party_words(storm.party), storm.operations_per_s, "ops_per_s",
             min(1.0, storm.capacity_ratio), f"{format_time_ns(storm.start_ns)} to {format_time_ns(storm.end_ns)}")
        for storm in asked.storms[:_MOST_STORMS]
    )  # fmt: skip


def _storm(found: MetadataStorm) -> Storm:
    party = found.party
    return Storm(
        party.job_id, party.user, party.project, party.program, found.start_ns, found.end_ns, found.operations_per_s,
        found.capacity_ratio,
    )  # fmt: skip


def _findings(asked: Activity, found: Sequence[Accused]) -> Iterator[Finding]:
    for number, each in enumerate(found[:_MOST_CULPRITS], 1):
        suspect = each.worst.suspect
        did = f"{party_words(each.party, begins=True)}: {pattern_words(suspect)} {tell_words(suspect)}"
        yield Finding(did, name=f"did_{number}")
    if len(found) > 1:
        yield Finding(NOT_ADDITIVE, name="not_additive")
    due = [run.attributable for run in asked.slowed]
    if due and sum(due) < _LITTLE * len(due):
        text = "Runs beside as much work of others were hardly slow more often than the rest"
        yield Finding(f"{text}: it explains about {sum(due) / len(due):.0%} of the slow ones.", name="explained")
    if asked.known_ratio is not None:
        share = f"records of jobs explain {asked.known_ratio:.0%} of the bytes that storage moved."
        yield Finding(f"From {_when(asked)} {share}", name="known")


# [ours] Of slow runs beside others' work; from here on work explains most of them.
_LITTLE: Final = 0.5
_CULPRIT_COLUMNS: Final = columns_of(
    "job_id: job; user [text]; project [text]; program [text]; probability [ratio]; seconds: cost others [seconds]; "
    "low: at least [seconds]; high: at most [seconds]; runs [count]; bytes_ratio: share of bytes [ratio]; "
    "operations_ratio: of operations [ratio]; target: most on [text]; target_ratio: of its work [ratio]; "
    "known_by [text]"
)


def _culprit_table(found: Sequence[Accused]) -> Exhibit:
    """With the shares in the run that lost most to each."""
    rows = []
    for each in found:
        party, suspect = each.party, each.worst.suspect
        name, share = suspect.targets[0] if suspect.targets else (None, None)
        rows.append((
            party.job_id, party.user, party.project, party.program, each.probability, each.seconds, each.low, each.high,
            each.runs, suspect.bytes_ratio, suspect.operations_ratio, name, share, suspect.evidence,
        ))  # fmt: skip
    return Exhibit(
        "who.culprits", "Jobs that slowed others", tables=(ResultTable("culprits", _CULPRIT_COLUMNS, tuple(rows)),)
    )


_TALKER_COLUMNS: Final = columns_of(
    "job_id: job; user [text]; project [text]; program [text]; read_bytes: read [bytes]; "
    "write_bytes: written [bytes]; metadata_operations: metadata ops [count]; bytes_ratio: share of bytes [ratio]; "
    "metadata_ratio: of metadata [ratio]; known_by [text]"
)


def _talker_table(talkers: Sequence[Talker]) -> Exhibit:
    rows = tuple(tuple(getattr(each, column.name) for column in _TALKER_COLUMNS) for each in talkers)
    return Exhibit("who.talkers", "Who does most I/O", tables=(ResultTable("talkers", _TALKER_COLUMNS, rows),))


def _without(asked: Supposed) -> Answer:
    amount = saved(asked)
    before = sum(run.io_seconds for run in asked.runs)
    parts = sorted(zip(gains(asked.runs), asked.runs, strict=True), key=lambda pair: -abs(pair[0]))
    felt = [(gain, run) for gain, run in parts if abs(gain) > 0.001 * max(run.io_seconds, 1e-9)]
    value = amount.value or 0.0
    words = f"Without {party_words(asked.party)}"
    direction = "less" if value >= 0 else "more"
    low, high = sorted(abs(each or 0.0) for each in (amount.low, amount.high))
    headline = (
        f"{words} the I/O of {len(asked.runs):,} other runs would have taken {format_seconds(abs(value))} {direction} "
        f"({format_seconds(low)} to {format_seconds(high)}), of {format_seconds(before)}."
    )
    felt_most = [(gain, run, format_seconds(run.io_seconds)) for gain, run in felt[:_MOST_GAINS]]
    facts = numbered(
        Fact("run", party_words(run.party), gain, "seconds", min(1.0, abs(gain) / run.io_seconds), f"of {took}")
        for gain, run, took in felt_most
    )
    groups = (FactGroup("runs", "Seconds that runs would take less", facts),) if facts else ()
    found = WhatIfOutcome(
        "without",
        asked.party.job_id,
        asked.filesystem,
        asked.start_ns,
        asked.end_ns,
        len(asked.runs),
        before,
        before - value,
        value,
        amount.low,
        amount.high,
        tuple(Gain(run.party.job_id, run.party.user, run.io_seconds, gain) for gain, run in felt[:_MOST_GAINS]),
    )
    return Answer(
        "What would have been?",
        headline,
        groups,
        name="who",
        coverage=(Coverage(len(asked.runs), len(felt), "runs with a log that would feel it"),),
        caveats=("Ranges are 90% intervals. Runs without a log are not counted, nor is the job's own time.",),
        result=WhoOutcome("period", asked.filesystem, asked.start_ns, asked.end_ns, without=found),
    )


QUESTION = Question(
    name="who",
    result=WhoOutcome,
    run=run,
    tables=LOG_TABLES | {"events", "job_io", "job_operations", "responses"},
    params=(
        Param(
            "job",
            "A Darshan log, the id of a job or of an event (default: the last hour).",
            positional=True,
            metavar="LOG|JOBID|EVENT",
        ),
        Param("without", "How long others' I/O would have taken without this job.", "int", metavar="JOB"),
        Param("at", "Who it was about this time.", "time", metavar="TIME"),
        Param("window", "How long that is.", "duration", default="10m", metavar="TIME"),
        Param("filesystem", "On this file system (default: the busiest).", metavar="NAME"),
        Param("by", "Add up I/O by this.", default="job", choices=tuple(_NAMES)),
        Param("top", "So many of those that do most I/O.", "int", default=_MOST_TALKERS, least=1, metavar="N"),
        UID,
        Param("detail", "The tables too.", "flag", default=True, shown=False),
    ),
    help="Say which jobs and users slowed others, by how much, and who does most I/O.",
    epilog="""\b
For a job: the jobs beside it, and how long its I/O would have taken without
each. For an event, a time (--at) or a period (--from, --to): the jobs that
cost others most, and who moved most bytes. With none of these: the last hour
in which the lake knows of jobs. Servers' counts of jobs (Lustre
job_stats) say it best; Darshan logs are used where there are none. Nobody is
named below a probability of 50%.
Exit codes: 0 answered; 1 the lake has no such job; 2 unclear.

\b
Example: ioweather who 4711 --lake lake
Example: ioweather who --without 4711
Example: ioweather who --at 2026-11-01T14:00 --by user
""",
    table="culprits",
    screen={"detail": False},
)
