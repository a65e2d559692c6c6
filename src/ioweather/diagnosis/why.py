"""`why`: was it me or the system? One run against similar runs, at the state the system was in."""

from __future__ import annotations

from ioweather.core.choices import CLUSTER, JOB, UID
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Answer
from ioweather.diagnosis.blame_query import read_slowed_run
from ioweather.diagnosis.job import why_screen
from ioweather.diagnosis.jobs_without_log import accounted_why_answer
from ioweather.diagnosis.recorded_verdicts import recorded_of_accounted_job, recorded_of_job
from ioweather.diagnosis.similar_runs import COMPARED_TABLES, conditions_of_job, similar_to_job
from ioweather.diagnosis.verdict import with_recorded
from ioweather.diagnosis.verdict_wording import explain, with_culprits
from ioweather.job_io.advisor.advise import with_advice
from ioweather.job_io.outcomes import Reason, WhyOutcome
from ioweather.job_io.view import LOG_TABLES, named_log
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """Compare the job with similar runs, and name what slowed it; without a log, from its run time."""
    try:
        view = named_log(source, params)
    except DataUnavailable:
        answer = accounted_why_answer(source, params)
        if answer is None:
            raise
        return with_recorded(answer, recorded_of_accounted_job(source, params), params["as_of"])
    reason, detail = Reason.NO_LAKE, "no system data for this period (no lake)"
    found = slowed = None
    try:
        similar = similar_to_job(source, params)
        reason = Reason.NO_SYSTEM_DATA
        found = conditions_of_job(source, params)
        slowed = read_slowed_run(source.snapshot, similar, found.filesystem)
    except DataUnavailable as error:
        if reason is Reason.NO_SYSTEM_DATA and found is None:
            detail = error.message
    judged = with_advice(with_culprits(explain(view, found, reason, detail), slowed), view)
    return with_recorded(judged, source.shared(recorded_of_job, params), params["as_of"])


QUESTION = Question(
    name="why",
    result=WhyOutcome,
    run=run,
    tables=LOG_TABLES | COMPARED_TABLES | {"job_operations", "verdicts"},
    params=(
        JOB,
        Param("filesystem", "File system to judge (default: the one with the most data moved).", metavar="NAME"),
        Param("as_of", "Compare only with runs that ended by this time (default: all).", "time", metavar="TIME"),
        UID,
        CLUSTER,
    ),
    help="Find out whether the job or storage slowed a run, by comparing it with similar runs.",
    epilog="""The run is compared with similar runs in the lake, given the state of the servers. Similar runs have the
same user, program and number of processes, and move an amount of data within 25%.

Verdicts: normal, system, you, both, unexplained (slow without a measured cause), unknown. Without system samples, the
run is still compared, but the cause is unknown.

Without a log, the run time is compared with similar jobs in accounting (same user, name and nodes). Such a verdict is
weaker and never "you".

Exit codes: 0 answered, including unknown; 1 no such job in the lake; 2 not a log, or ambiguous.

\b
Example: ioweather why run.darshan --lake lake
""",
    blocks=why_screen,
)
