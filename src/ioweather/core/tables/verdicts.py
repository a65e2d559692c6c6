"""`verdicts`: what `why` said of a run, as of which time, by which model. The one store of verdicts."""

from __future__ import annotations

from ioweather.core.tables.ranges import ANY, NOT_NEGATIVE, PLANNED_TIME
from ioweather.core.tables.schema import ColumnSpec, TableSpec

VERDICT_KINDS = ("both", "normal", "system", "unexplained", "unknown", "you")
PARTS = ("usual", "system", "own", "unexplained")


def _seconds(name: str, doc: str) -> ColumnSpec:
    return ColumnSpec(name, "float64", doc, nullable=True)


def _json(name: str, doc: str) -> ColumnSpec:
    return ColumnSpec(name, "text", f"JSON: {doc}", nullable=True)


_SPLIT = tuple(
    column
    for part, words in zip(PARTS, ("as usual", "the system", "what it did differently", "unexplained"), strict=True)
    for column in (
        _seconds(f"{part}_seconds", f"I/O time: {words}"),
        _seconds(f"{part}_low_seconds", "lower end of its 90% interval"),
        _seconds(f"{part}_high_seconds", "upper end of its 90% interval"),
    )
)

VERDICTS = TableSpec(
    name="verdicts",
    doc="Verdicts on runs. As of the run's end only runs that had ended by then were compared; a row with a later "
    "`as_of_ns` is a revision, and stands beside the first. Of one run and one `as_of_ns`, the row of the newest model "
    "counts, then the one that was made last.",
    columns=(
        ColumnSpec("log_digest", "text", "the run: content digest of its log; null where it has none", nullable=True),
        ColumnSpec("cluster", "text", "cluster of a job without a log", nullable=True),
        ColumnSpec("raw_job_id", "int64", "job id in the log: Slurm's JobIDRaw", nullable=True, range=ANY),
        ColumnSpec("step", "text", "step of a job without a log; '' for all of it", nullable=True),
        ColumnSpec("uid", "int64", "user id", nullable=True, range=ANY),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("end_ns", "int64", "end of the run"),
        ColumnSpec("as_of_ns", "int64", "only runs that had ended by then count", range=PLANNED_TIME),
        ColumnSpec("model_version", "int64", "version of the model that judged", range=NOT_NEGATIVE),
        ColumnSpec("judged_ns", "int64", "when it was judged"),
        ColumnSpec("kind", "text", ", ".join(VERDICT_KINDS), choices=frozenset(VERDICT_KINDS)),
        ColumnSpec("reason", "text", "why it is unknown", nullable=True),
        ColumnSpec("likeliest", "text", "the likeliest kind", choices=frozenset(VERDICT_KINDS)),
        ColumnSpec("probability_ratio", "float64", "probability of the likeliest kind", nullable=True),
        _json("probabilities", "probability by kind"),
        _seconds("io_seconds", "I/O time of the run"),
        _seconds("harm_seconds", "slowdown is counted from here"),
        *_SPLIT,
        ColumnSpec("filesystem", "text", "file system that was looked at", nullable=True),
        _json("changed", "measures of its pattern that differ from similar runs"),
        _json("culprits", "jobs that slowed it, with probability and seconds"),
        _json("unhealthy", "components that were unhealthy meanwhile"),
        _json("worth", "what is worth changing, the most seconds first"),
        ColumnSpec("similar_count", "int64", "similar runs it was compared with"),
        ColumnSpec("coverage_ratio", "float64", "share of the run in which the system was sampled", nullable=True),
        ColumnSpec("headline", "text", "the verdict in one sentence"),
        _json("table_versions", "versions of the tables that were read"),
        ColumnSpec("software_version", "text", "version of ioweather that judged"),
    ),
    key=("log_digest", "cluster", "raw_job_id", "step", "as_of_ns"),
    time="as_of_ns",
    revisable=True,
    revision=("model_version",),
    order=("as_of_ns", "log_digest"),
)
