"""Whether jobs write new files or over old ones (car11 IV-B), from Darshan: the share of written files that were new
or empty before, where the log has the size at open, and a named proxy where it has not; and from scans of the file
system, how long data lies unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Chart, Coverage, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_bytes
from ioweather.core.words import names_of
from ioweather.studies.contents.scans import BINS, ROOT, SCANS, Bins, ScanView, view
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import share_estimate
from ioweather.studies.shared.presenting import table

# car11: "over 80%" not modified in over 64 days, "over 70%" in over 128: data is rarely overwritten.
AGES_DAYS: Final = (64, 128)
_CAVEATS: Final = (
    "Ages are by modification time in the newest scan: a copy that keeps times looks old, and a touched file new.",
    "Data that was written and deleted between scans is not seen.",
)


@dataclass(frozen=True)
class AgeHalf:
    estimates: tuple[Estimate, ...]
    tables: tuple[ResultTable, ...]
    charts: tuple[Chart, ...]
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...]


def data_age(scans: ScanView) -> AgeHalf | None:
    """Of the newest scan; None where it has no modification times."""
    ages = scans.histogram(-1, "mtime")
    if not ages.files:
        return None
    share = {days: _share(ages, days) for days in AGES_DAYS}
    estimates = tuple(
        plain(f"unmodified_ratio[{days} d]", ratio, "ratio", n=ages.files, method="share of bytes, exact count")
        for days, ratio in share.items()
    )
    return AgeHalf(
        (*estimates, plain("files_present", ages.files, "count", method="files in the newest scan")),
        (_table(ages),),
        (_chart(ages),),
        tuple(_findings(ages, share)),
        _CAVEATS,
    )


def with_age(exhibit: Exhibit | None, age: AgeHalf) -> Exhibit:
    """`car11.overwrite` whole: what jobs tell, if anything, and what scans tell."""
    if exhibit is None:
        caveats = (*age.caveats, "No job has told which files it wrote: Darshan logs would.")
        return Exhibit("car11.overwrite", "", age.tables, age.charts, age.estimates, age.findings, caveats)
    written = next((e.value for e in exhibit.estimates if e.name == "files_written"), None)
    present = age.estimates[-1].value
    together = (short_lived(int(written), int(present)),) if written and present else ()
    return replace(
        exhibit,
        tables=(*age.tables, *exhibit.tables),
        charts=(*age.charts, *exhibit.charts),
        estimates=(*age.estimates, *exhibit.estimates),
        findings=(*age.findings, *exhibit.findings, *together),
        caveats=(*age.caveats, *exhibit.caveats),
    )


def short_lived(files_written: int, files_present: int) -> Finding:
    """car11 IV-B: jobs wrote more files than are there."""
    if files_written > files_present:
        return Finding(
            f"Jobs wrote {files_written:,} files and {files_present:,} are there: most are deleted soon, or "
            "written again.",
            name="short_lived_files",
        )
    return Finding(f"Jobs wrote {files_written:,} files; {files_present:,} are there.", name="short_lived_files")


def _share(ages: Bins, days: int) -> float | None:
    return ages.from_on(days)[1] / ages.total_bytes if ages.total_bytes else None


def _findings(ages: Bins, share: dict[int, float | None]) -> Iterator[Finding]:
    for days, ratio in share.items():
        if ratio is not None:
            held = format_bytes(ages.from_on(days)[1])
            yield Finding(
                f"{held} of the data ({ratio:.1%}) lies unmodified for {days} days or longer.", name="old_data"
            )
        else:
            yield Finding(f"There is no data whose age of {days} days could be told.", "undecided", name="old_data")


def _table(ages: Bins) -> ResultTable:
    """Shares that are at least so old, at every edge."""
    edges = [int(edge) for edge in ages.low if edge > 0]
    older = [ages.from_on(edge) for edge in edges]
    return table(
        "data_age",
        {
            "age": ("not modified for (days)", "count", edges),
            "files": ("files", "count", [files for files, _ in older]),
            "files_ratio": ("of the files", "ratio", [files / ages.files for files, _ in older]),
            "bytes": ("bytes", "bytes", [held for _, held in older]),
            "bytes_ratio": ("of the bytes", "ratio", [_share(ages, edge) for edge in edges]),
        },
        "Age of the data by modification time",
    )


def _chart(ages: Bins) -> Chart:
    """Share of files and bytes that were modified within so many days."""
    total = max(1, ages.total_bytes)
    series = {"files": ages.count.cumsum() / ages.files, "bytes": ages.bytes.cumsum() / total}
    rows = {
        "series": ("", "text", [name for name in series for _ in ages.high]),
        "days": ("modified within (days)", "count", [int(edge) for _ in series for edge in ages.high]),
        "share": ("share", "ratio", np.concatenate(list(series.values()))),
    }
    return Chart.of(
        "cdf",
        table("age_cdf", rows),
        "x=days y=share series",
        "Files and bytes by time since modification",
        log="x",
        references=tuple(Reference("x", float(days), f"{days} days") for days in AGES_DAYS),
    )


_NO_SCAN = "How long data lies unmodified comes from scans of the file system (`ioweather scan`); there are none."


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    runs, scans = data.frames.get("job_io"), view(data.frames, facility)
    by_jobs = written_files(runs) if runs is not None and runs.rows else None
    age = data_age(scans) if scans is not None else None
    if age is not None:
        yield with_age(by_jobs, age)
    elif by_jobs is not None:
        yield replace(by_jobs, caveats=(*by_jobs.caveats, _NO_SCAN))


@exhibit("car11.overwrite")
def written_files(runs: Frame) -> Iterator[Piece]:
    """car11.overwrite, the half that jobs tell."""
    written = _total(runs, "write_only_file_count") + _total(runs, "read_write_file_count")
    known, new = _total(runs, "size_known_file_count"), _total(runs, "new_or_empty_file_count")
    by_proxy = runs.text("create_rule").equals("written_whole")
    proxy_runs = runs.take(by_proxy)
    proxy_written = _total(proxy_runs, "write_only_file_count") + _total(proxy_runs, "read_write_file_count")
    proxy = _total(proxy_runs, "create_count")
    rows = (
        ("size at open (Darshan 2)", known, new, new / known if known else None),
        (
            "proxy: written before read, and whole (Darshan 3)",
            proxy_written,
            proxy,
            proxy / proxy_written if proxy_written else None,
        ),
    )
    table = ResultTable.of(
        "written_files",
        "rule [text]; written: files written [count]; new: new or empty before [count]; ratio [ratio]",
        rows,
    )
    share = share_estimate("new_or_empty_ratio", new, known)
    yield Finding(f"Jobs wrote {written:,} files.", name="files_written")
    if known:
        yield Finding(f"{new:,} of {known:,} written files were new or empty when first opened.", name="new_files")
    else:
        yield Finding(
            "No log records the size of files at open (Darshan 3): whether they were new is not known.",
            "undecided",
            name="new_files_unknown",
        )
    if proxy_written:
        yield Finding(
            f"By the proxy, {proxy / proxy_written:.1%} of {proxy_written:,} written files were the job's own.",
            name="new_files_by_proxy",
        )
    yield table, plain("files_written", written, "count", n=runs.rows, method="sum over runs"), share
    yield share_estimate("proxy_created_ratio", proxy, proxy_written)
    yield "New or empty before is not the same as created: an empty file that was there counts."
    yield "The proxy takes a file that the job overwrote whole as new."
    yield "Files of one run are counted once; a file written by several runs counts in each."
    yield Coverage(written, known, "files written", {"size at open not recorded": written - known})


def _total(runs: Frame, name: str) -> int:
    return int(runs.ints(name).sum())


STUDY = Study(
    name="overwriting",
    exhibits=("car11.overwrite",),
    needs=(
        Need(
            "job_io",
            "job_io",
            columns=names_of("""
                log_digest start_ns write_only_file_count read_write_file_count size_known_file_count
                new_or_empty_file_count create_count create_rule
            """),
            optional=True,
        ),
        replace(SCANS, optional=True),
        replace(BINS, optional=True),
    ),
    run=run,
    params=(ROOT,),
)
