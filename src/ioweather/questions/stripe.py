"""`stripe`: over how many targets to stripe a file."""

from __future__ import annotations

from dataclasses import replace

from ioweather.advice.transfers.stripe import recommend_stripe
from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import StripeOutcome
from ioweather.core.results import Answer
from ioweather.core.units import parse_size
from ioweather.derive.system.health import without_incidents
from ioweather.questions.parameters import FILESYSTEM_SAMPLED, MODE
from ioweather.questions.predict import RESPONSES
from ioweather.studies.job.view import JobView
from ioweather.studies.responses.samples import INCIDENTS
from ioweather.studies.responses.striping import known_targets


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    op = params["op"]
    try:
        if "log" in data.given:
            file_bytes = largest_file_bytes(data.of("log", JobView).files, op)
        else:
            file_bytes = parse_size(params["size"])
        responses, left_out = without_incidents(data.frames["responses"], data.frames.get("events"), facility)
        found = recommend_stripe(
            responses,
            facility,
            file_bytes=file_bytes,
            op=op,
            filesystem=params["filesystem"],
            mode=params["mode"],
            targets=params["targets"],
            directory=params["directory"],
        )
        return replace(found, caveats=(*found.caveats, *left_out))
    except ValueError as error:
        raise UsageError(f"SIZE: {error}.") from None


def largest_file_bytes(files: Frame, op: str) -> int:
    """Bytes that a run moved to or from its largest file: the file whose striping matters most."""
    column = "read_bytes" if op == "read" else "write_bytes"
    moved: dict[int, int] = {}
    layers = files.text("module").tolist()
    mpi = {r for r, layer in zip(files.array("record_id").tolist(), layers, strict=True) if layer == "MPI-IO"}
    rows = zip(files.array("record_id").tolist(), layers, files.array(column).tolist(), strict=True)
    for record, layer, amount in rows:
        # What MPI-IO moved stands again in the POSIX record below it.
        if layer == "MPI-IO" or record not in mpi:
            moved[record] = moved.get(record, 0) + (amount or 0)
    largest = max(moved.values(), default=0)
    if not largest:
        raise DataUnavailable(f"The run did not {op} any file.", hint="Give --read or --write.")
    return largest


QUESTION = Question(
    name="stripe",
    result=StripeOutcome,
    needs=(Need("log", "", shape="log", param="size", optional=True), RESPONSES, INCIDENTS),
    answer=answer,
    params=(
        Param("size", "Bytes of the file, or a Darshan log.", required=True),
        FILESYSTEM_SAMPLED,
        MODE,
        Param(
            "op",
            "Whether the file is read or written.",
            default="write",
            choices=("read", "write"),
            option="read/write",
        ),
        Param("targets", "OSTs there are (default: what the lake knows).", "int", choose=known_targets, least=1),
        Param("directory", "Directory for the lfs setstripe line.", default="DIRECTORY"),
    ),
    help="""Say over how many OSTs to stripe a file of SIZE, from sampled response times.

    SIZE may also be a Darshan log: then the largest file of that run is meant.""",
    epilog="Example: ioweather stripe 64GiB --write --directory /scratch/run7",
    seen_by="public",
)
