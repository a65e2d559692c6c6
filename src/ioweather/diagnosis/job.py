"""`job`: the I/O of one job, from its log or its id, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.question_parameters import CONDITIONS, JOB, LOG, PATHS, PROCESSES_PER_NODE, SIMILAR, UID
from ioweather.core.results import Answer, Finding
from ioweather.core.run_outcomes import JobOutcome, WhyOutcome
from ioweather.core.units import format_value
from ioweather.diagnosis.verdict import Explained
from ioweather.diagnosis.verdict_wording import explain
from ioweather.facts.server_io import ServerIo
from ioweather.job_io.advisor.advise import advise, advised_answer, brief_lines, priced
from ioweather.job_io.job_page import page_exhibits
from ioweather.job_io.server_counts import beside_log, server_answer
from ioweather.job_io.summary import ALWAYS_SAID, job_answer
from ioweather.job_io.view import JobView, as_one_run, only_files, target_exhibit


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    if isinstance(data.given["job"], ServerIo):
        return server_answer(params["job"], data.of("job", ServerIo), detail=params["detail"])
    whole = as_one_run(data.of("job", JobView))
    view = only_files(whole, params["file"]) if params["file"] else whole
    judged = _judged(data)
    advised = advise(view) if judged is None else priced(advise(view), judged)
    found = job_answer(view, lines_beside=brief_lines(advised))
    if judged is not None and isinstance(found.result, JobOutcome):
        found = replace(
            found,
            findings=(*_slowdown_words(judged, params["job"]), *found.findings),
            result=replace(found.result, slowness=judged.slowness),
        )
    if params["detail"]:
        found = replace(found, exhibits=(*page_exhibits(view), *target_exhibit(view)))
    if "counted" in data.given:
        found = replace(found, facts=(*found.facts, beside_log(view, data.of("counted", ServerIo))))
    if params["file"]:
        used, every = (len(set(v.files.ints("record_id").tolist())) for v in (view, whole))
        note = Finding(f"Only files that fit {params['file']}: {used:,} of {every:,}.", name="only_these_files")
        found = replace(found, findings=(note, *found.findings))
    return advised_answer(found, advised, brief=True)


def _judged(data: StudyData) -> WhyOutcome | None:
    """What `why` says of the run, where the lake has similar runs."""
    if "conditions" not in data.given:
        return None
    view = data.of("job", JobView)
    result = explain(view, view.main_run, data.of("conditions", Explained)).result
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
    needs=(
        replace(LOG, also=(*LOG.also, "job_operations")),
        Need("counted", "job_operations", shape="counted", after="job", optional=True, when="not file"),
        replace(SIMILAR, shape="similar_if_named", when="not file"),
        replace(CONDITIONS, when="not file"),
    ),
    answer=answer,
    params=(
        JOB,
        PROCESSES_PER_NODE,
        PATHS,
        UID,
        Param("file", "Only files whose name (with a slash: path) fits this pattern.", metavar="PATTERN"),
        Param("detail", "All modules, mounts and largest files.", "flag", default=True, shown=False),
    ),
    help="Show the I/O of one job on one screen: time, speed, files, accesses, activity.",
    epilog="""\b
A log is read where it lies: no lake is needed, and nothing is written
beside it. With --lake, accounting gives the nodes. A job id means the run
of that job with the most I/O time; where there is no log, what the servers
counted of it.
With --file one file, or those of a pattern, are looked at as if there were
no others: --file 'restart.*'. --json and --html also have each target's part.
Exit codes: 0 shown; 1 the lake has no such job; 2 not a log, or unclear.

\b
Example: ioweather job run.darshan --html run.html
""",
    screen={"detail": False},
    brief={
        "time": 4,
        "speed": 2,
        "files": 4,
        "accesses": 4,
        "advice": 3,
        "which_run": 1,
        **dict.fromkeys((*ALWAYS_SAID, "more_advice"), 1),
        "slowdown": 1,
        "one_process_io": 1,
        "file_per_process": 1,
    },
)
