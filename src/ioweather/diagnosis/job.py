"""`job`: the I/O of one job, from its log or its id, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ioweather.core.choices import CLUSTER, JOB, PATHS, PROCESSES_PER_NODE, UID
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import JobOutcome, WhyOutcome
from ioweather.core.results import Answer, Finding
from ioweather.core.units import format_value
from ioweather.diagnosis.job_screens import job_screen
from ioweather.diagnosis.jobs_without_log import accounted_job_answer
from ioweather.diagnosis.verdict_wording import explain
from ioweather.facts.server_io import ServerIo
from ioweather.job_io.advisor.advise import advise, advised_answer, priced
from ioweather.job_io.job_page import beside_log, page_exhibits, server_answer
from ioweather.job_io.summary import job_answer
from ioweather.job_io.view import LOG_TABLES, JobView, as_one_run, named_log, only_files, target_exhibit
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """The I/O of the job, from its logs; without one, accounting and what servers counted of it."""
    if params["file"]:
        source.tables = LOG_TABLES | {"job_operations"}
    try:
        log = named_log(source, params)
    except DataUnavailable:
        answer = accounted_job_answer(source, params)
        if answer is not None:
            return answer
        counted = _counted_alone(source, params)
        if counted is None:
            raise
        return server_answer(params["job"], counted, detail=params["detail"])
    whole = as_one_run(log)
    view = only_files(whole, params["file"]) if params["file"] else whole
    # Neither is about single files.
    counted = None if params["file"] else _counted_beside(source, log)
    judged = None if params["file"] else _judged(source, params, log)
    advised = advise(view) if judged is None else priced(advise(view), judged)
    found = job_answer(view)
    if judged is not None and isinstance(found.result, JobOutcome):
        found = replace(
            found,
            findings=(*_slowdown_words(judged, params["job"]), *found.findings),
            result=replace(found.result, slowness=judged.slowness),
        )
    if params["detail"]:
        found = replace(found, exhibits=(*page_exhibits(view), *target_exhibit(view)))
    if counted is not None:
        found = replace(found, facts=(*found.facts, beside_log(view, counted)))
    if params["file"]:
        used, every = (len(set(v.files.ints("record_id").tolist())) for v in (view, whole))
        note = Finding(f"Only files that fit {params['file']}: {used:,} of {every:,}.", name="only_these_files")
        found = replace(found, findings=(note, *found.findings))
    return advised_answer(found, advised)


def _counted_alone(source: DataSource, params: Params) -> ServerIo | None:
    from ioweather.job_io.view import counted_by_servers  # a log alone needs no database

    source.note_logs("job")
    return counted_by_servers(source, params)


def _counted_beside(source: DataSource, log: JobView) -> ServerIo | None:
    """What servers counted of a job that has logs, if there is a lake."""
    if not source.has_lake:
        return None
    from ioweather.job_io.view import counted_beside_log

    try:
        return counted_beside_log(source.snapshot, log)
    except DataUnavailable:
        return None


def _judged(source: DataSource, params: Params, log: JobView) -> WhyOutcome | None:
    """What `why` says of the run, if a lake was named or is open and has similar runs."""
    if not source.has_lake:
        return None
    from ioweather.diagnosis.similar_runs import conditions_of_job, similar_to_job

    try:
        similar_to_job(source, params)
        found = conditions_of_job(source, params)
    except DataUnavailable:
        return None
    result = explain(log, found).result
    assert isinstance(result, WhyOutcome)
    return result


def _slowdown_words(judged: WhyOutcome, job: str) -> Iterator[Finding]:
    if judged.slowness is not None:
        times = format_value(judged.slowness, "factor")
        text = f"Its I/O took {times} the median time of similar runs: `ioweather why {job}` says why."
        yield Finding(text, name="slowdown")


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
        Param("file", "Only files whose name (with a slash: path) fits this pattern.", metavar="PATTERN"),
        Param("detail", "All modules, mounts and largest files.", "flag", default=True, shown=False),
    ),
    help="Show the I/O of one job on one screen: time, speed, files, accesses, activity.",
    epilog="""\b
Logs are read in place. No lake is needed and no files are written. With
--lake, the nodes come from accounting. For a job ID, the run with the most
I/O time is shown; without a log, its accounting and server counts.
--file limits the analysis to one file or a pattern: --file 'restart.*'.
--json and --html also include each target's share.
Exit codes: 0 shown; 1 no such job in the lake; 2 not a log, or ambiguous.

\b
Example: ioweather job run.darshan --html run.html
""",
    screen={"detail": False},
    blocks=job_screen,
)
