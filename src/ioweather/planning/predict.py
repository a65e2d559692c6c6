"""The topic `predict`: duration of a transfer, or stripe count for a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioweather.core.choices import FILESYSTEM_SAMPLED, MODE
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Frame
from ioweather.core.results import Answer
from ioweather.core.units import parse_size
from ioweather.facts.incidents import without_incidents
from ioweather.facts.response_samples import INCIDENTS, NEED
from ioweather.facts.striped_transfers import known_targets
from ioweather.job_io.job_query import find_job, note_log
from ioweather.planning.transfers import PredictOutcome, StripeOutcome, predict_transfer, recommend_stripe
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """Predict the time of a transfer, or recommend a stripe count."""
    log = None
    if source.reads_files and Path(params["size"]).is_file():
        log = find_job(source, params, params["size"])
        note_log(source, "size", log)
    missing = "No response times in the lake. Measure some: ioweather probe --sizes"
    frames, facility = source.fetch((NEED, INCIDENTS), missing=missing).frames, source.facility
    op = params["op"] or ("write" if params["stripe"] else "read")
    try:
        moved = None if log is None else largest_file_bytes(log.files, op)
        total_bytes = parse_size(str(params["size"])) if moved is None else moved
    except ValueError as error:
        raise UsageError(f"SIZE: {error}.") from None
    responses, left_out = without_incidents(frames["responses"], frames["events"], facility)
    common: dict[str, Any] = {"responses": responses, "facility": facility, "op": op}
    common |= {name: params[name] for name in ("filesystem", "mode")}
    try:
        if params["stripe"]:
            found = recommend_stripe(
                file_bytes=total_bytes, targets=params["targets"], directory=params["directory"], **common
            )
            found = replace(found, name="predict", result=_with_stripe(found, total_bytes))
        else:
            found = predict_transfer(
                total_bytes=total_bytes, request_bytes=params["request"], width=params["width"], **common
            )
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    return replace(found, caveats=(*found.caveats, *left_out))


def _with_stripe(found: Answer, total_bytes: int) -> PredictOutcome:
    stripe = found.result
    assert isinstance(stripe, StripeOutcome)
    return PredictOutcome(
        stripe.op,
        total_bytes,
        request_bytes=stripe.request_bytes or 0,
        width=stripe.width or 0,
        rounds=-(-total_bytes // (stripe.piece_bytes or total_bytes)),
        filesystem=stripe.filesystem,
        quantiles=stripe.quantiles,
        stripe=stripe,
    )


def largest_file_bytes(files: Frame, op: str) -> int:
    """Return the bytes that a run moved to or from its largest file, whose striping matters most."""
    column = "read_bytes" if op == "read" else "write_bytes"
    records, layers = files.array("record_id").tolist(), files.text("module").tolist()
    by_mpiio = {record for record, layer in zip(records, layers, strict=True) if layer == "MPI-IO"}
    moved: Counter[int] = Counter()
    for record, layer, amount in zip(records, layers, files.array(column).tolist(), strict=True):
        # The POSIX record of a file repeats the bytes of MPI-IO.
        if layer == "MPI-IO" or record not in by_mpiio:
            moved[record] += amount or 0
    largest = max(moved.values(), default=0)
    if not largest:
        raise DataUnavailable(f"The run did not {op} any file.", hint="Give --read or --write.")
    return largest


QUESTION = Question(
    name="predict",
    result=PredictOutcome,
    run=run,
    tables=frozenset({"events", "responses"}),
    params=(
        Param("size", "Bytes to move, or a Darshan log.", required=True),
        FILESYSTEM_SAMPLED,
        MODE,
        Param(
            "op",
            "Whether SIZE is read or written (default: read; with --stripe: written).",
            choices=("read", "write"),
            option="read/write",
        ),
        Param(
            "request",
            "Size of one request (default: SIZE over width, at most the largest sampled).",
            "size",
            metavar="SIZE",
        ),
        Param("width", "Requests in flight at a time.", "int", 1, least=1),
        Param("stripe", "Recommend a stripe count for a file of SIZE.", "flag", default=False),
        Param(
            "targets",
            "With --stripe: number of OSTs (default: as recorded in the lake).",
            "int",
            choose=known_targets,
            least=1,
        ),
        Param("directory", "With --stripe: directory for the lfs setstripe line.", default="DIRECTORY"),
    ),
    help="""Predict how long moving SIZE will take, with an interval, from sampled response times.

    SIZE may also be a Darshan log: the size is then that of the run's largest file.""",
    epilog="""
Example: ioweather predict 1TiB --request 16MiB --width 8 --read
Example: ioweather predict 64GiB --stripe --directory /scratch/run7
""",
    seen_by="public",
)


def run_stripe(source: DataSource, params: Params) -> Answer:
    """Answer `predict --stripe` under its former name `stripe`, with the result that `stripe` had."""
    found = run(source, {"stripe": True, **params})
    assert isinstance(found.result, PredictOutcome)
    return replace(found, name="stripe", result=found.result.stripe)


# The former name of `predict --stripe`; it works for one release more.
STRIPE = Question(
    name="stripe",
    result=StripeOutcome,
    run=run_stripe,
    tables=QUESTION.tables,
    params=tuple(param for param in QUESTION.params if param.name not in ("request", "width", "stripe")),
    help="Recommend a stripe count for a file of SIZE. Same as `predict SIZE --stripe`.",
    epilog="Example: ioweather stripe 64GiB --write --directory /scratch/run7",
    seen_by="public",
)
