"""`ioweather stripe` and `ioweather predict`: questions about a transfer, put to the lake's response times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ioweather.advice.transfers.predict import predict_transfer
from ioweather.advice.transfers.stripe import recommend_stripe
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Answer
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.rows import MODULES, rows_of_logs
from ioweather.store.lake import Lake
from ioweather.studies.responses.samples import NEED
from ioweather.workflows.analyse import ALL_TIME, Period


def ask_stripe(lake: Lake, *, period_ns: Period = ALL_TIME, **question: Any) -> Answer:
    responses, facility, targets = _responses(lake, period_ns)
    return recommend_stripe(responses, facility, targets=question.pop("targets", None) or targets, **question)


def largest_file_bytes(log: Path, op: str) -> int:
    """Bytes that a run moved to or from its largest file: the file whose striping matters most."""
    _, files = rows_of_logs([read_log(log, modules=MODULES)])
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
        raise DataUnavailable(f"The run of {log} did not {op} any file.", hint="Give --read or --write.")
    return largest


def ask_predict(lake: Lake, *, period_ns: Period = ALL_TIME, **question: Any) -> Answer:
    responses, facility, _ = _responses(lake, period_ns)
    return predict_transfer(responses, facility, **question)


def _responses(lake: Lake, period_ns: Period) -> tuple[Frame, Facility, int | None]:
    """Rows of the sampler and the probe; the facility; how many OSTs the lake knows of."""
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["responses"].uris:
            raise DataUnavailable("The lake has no response times.", hint="Take some: ioweather sample PATH")
        frame = snapshot.frame("responses", NEED.columns, NEED.where, None if period_ns == ALL_TIME else period_ns)
        targets = max((group.components for group in snapshot.series() if group.component_kind == "ost"), default=None)
    return frame, snapshot.facility, targets
