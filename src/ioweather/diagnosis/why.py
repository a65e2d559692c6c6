"""`why`: was it me or the system? One run against similar runs, at the state the system was in."""

from __future__ import annotations

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.question_parameters import CONDITIONS, JOB, LOG, SIMILAR, UID
from ioweather.core.results import Answer
from ioweather.core.run_outcomes import Reason, WhyOutcome
from ioweather.diagnosis.blame import Slowed
from ioweather.diagnosis.verdict import Explained, with_recorded
from ioweather.diagnosis.verdict_wording import explain, with_culprits
from ioweather.job_io.advisor.advise import with_advice
from ioweather.job_io.summary import ALWAYS_SAID
from ioweather.job_io.view import JobView


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    view = data.of("job", JobView)
    found = data.of("conditions", Explained) if "conditions" in data.given else None
    reason, detail = Reason.NO_SYSTEM_DATA, data.lacking.get("conditions", "")
    if "similar" in data.lacking:
        reason, detail = Reason.NO_LAKE, "no system data for this period (there is no lake)"
    run = data.of("suspects", Slowed) if "suspects" in data.given else None
    judged = with_advice(with_culprits(explain(view, view.main_run, found, reason, detail), run), view)
    return with_recorded(judged, data.given.get("recorded", ()), params["as_of"])


QUESTION = Question(
    name="why",
    result=WhyOutcome,
    needs=(
        LOG,
        SIMILAR,
        CONDITIONS,
        Need("suspects", "job_operations", shape="suspects", after="conditions", also=("jobs",), optional=True),
        Need("recorded", "verdicts", shape="recorded", after="job", optional=True),
    ),
    answer=answer,
    params=(
        JOB,
        Param("filesystem", "File system to blame or clear (default: where the bytes went).", metavar="NAME"),
        Param("resolution", "Sampling interval (default: 60 s, finer for short runs).", "duration", metavar="TIME"),
        Param("as_of", "Only runs that had ended by this time count (default: all).", "time", metavar="TIME"),
        UID,
    ),
    help="Was it my job or the storage system? Compares a run with similar runs.",
    epilog="""\b
The run is compared with similar runs in the lake (same user, program and
processes, bytes within 25%), at the state the servers were in. Verdicts:
normal, system, you, both, unexplained (slower, and nothing measured says
why), unknown. Without samples of the system it is still compared, and only
the cause is unknown.
Exit codes: 0 answered, unknown included; 1 the lake has no such job;
2 not a log, or unclear.

\b
Example: ioweather why run.darshan --lake lake
""",
    brief={
        "comparison": 3,
        "split": 4,
        "advice": 99,
        "which_run": 1,
        **dict.fromkeys((*ALWAYS_SAID, "more_advice"), 1),
        "changed": 1,
        "unhealthy_components": 1,
        "culprit_1": 1,
        "as_of": 1,
    },
)
