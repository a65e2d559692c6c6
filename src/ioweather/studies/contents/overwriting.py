"""Whether jobs write new files or over old ones (car11 IV-B), from Darshan: the share of written files that were new
or empty before, where the log has the size at open, and a named proxy where it has not; and from scans of the file
system, how long data lies unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Coverage, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.studies.contents.age import data_age, with_age
from ioweather.studies.contents.scans import BINS, ROOT, SCANS, view
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import share_estimate

_NO_SCAN = "How long data lies unmodified comes from scans of the file system (`ioweather scan`); there are none."


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    runs, scans = data.frames.get("job_io"), view(data.frames, facility)
    by_jobs = written_files(runs) if runs is not None and runs.rows else None
    age = data_age(scans) if scans is not None else None
    if age is not None:
        yield with_age(by_jobs, age)
    elif by_jobs is not None:
        yield replace(by_jobs, caveats=(*by_jobs.caveats, _NO_SCAN))


def written_files(runs: Frame) -> Exhibit:
    """car11.overwrite, the half that jobs tell."""
    written = _total(runs, "write_only_file_count") + _total(runs, "read_write_file_count")
    known, new = _total(runs, "size_known_file_count"), _total(runs, "new_or_empty_file_count")
    by_proxy = runs.text("create_rule").equals("written_whole")
    proxy_runs = runs.take(by_proxy)
    proxy_written = _total(proxy_runs, "write_only_file_count") + _total(proxy_runs, "read_write_file_count")
    proxy = _total(proxy_runs, "create_count")
    rows = (
        ("size at open (Darshan 2)", known, new, new / known if known else None),
        ("proxy: written before read, and whole (Darshan 3)", proxy_written, proxy, _ratio(proxy, proxy_written)),
    )
    table = ResultTable(
        "written_files",
        (
            ResultColumn("rule", "", "text"), ResultColumn("written", "files written", "count"),
            ResultColumn("new", "new or empty before", "count"), ResultColumn("ratio", "", "ratio"),
        ),
        rows,
    )  # fmt: skip
    share = share_estimate("new_or_empty_ratio", new, known)
    findings = [Finding(f"Jobs wrote {written:,} files.")]
    if known:
        findings.append(
            Finding(
                f"Files are written anew: {new / known:.1%} of {known:,} were new or empty before the job opened them.",
                "supported" if new > 0.9 * known else "refuted",
            )
        )
    else:
        findings.append(
            Finding(
                "No log records the size of files at open (Darshan 3): whether they were new is not known.", "undecided"
            )
        )
    if proxy_written:
        findings.append(
            Finding(f"By the proxy, {proxy / proxy_written:.1%} of {proxy_written:,} written files were the job's own.")
        )
    return Exhibit(
        "car11.overwrite", "Age of data and overwriting", tables=(table,),
        estimates=(
            plain("files_written", written, "count", n=runs.rows, method="sum over runs"),
            share,
            share_estimate("proxy_created_ratio", proxy, proxy_written),
        ),
        findings=tuple(findings),
        caveats=(
            "New or empty before is not the same as created: an empty file that was there counts.",
            "The proxy takes a file that the job overwrote whole as new.",
            "Files of one run are counted once; a file written by several runs counts in each.",
        ),
        coverage=(Coverage(written, known, "files written", {"size at open not recorded": written - known}),),
    )  # fmt: skip


def _total(runs: Frame, name: str) -> int:
    return int(np.ma.filled(np.ma.masked_array(runs.array(name)), 0).sum())


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


STUDY = Study(
    name="overwriting",
    exhibits=("car11.overwrite",),
    needs=(
        Need(
            "job_io",
            "job_io",
            columns=("log_digest", "start_ns", "write_only_file_count", "read_write_file_count",
                     "size_known_file_count", "new_or_empty_file_count", "create_count", "create_rule"),
            optional=True,
        ),
        replace(SCANS, optional=True),
        replace(BINS, optional=True),
    ),
    run=run,
    params=(ROOT,),
)  # fmt: skip
