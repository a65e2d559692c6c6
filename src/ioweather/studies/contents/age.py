"""How long data lies unmodified (car11 IV-B): the half of `car11.overwrite` that scans of the file system tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.results import Chart, Estimate, Exhibit, Finding, Reference, ResultTable
from ioweather.core.units import format_bytes
from ioweather.studies.contents.scans import Bins, ScanView
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.presenting import table

AGES_DAYS: Final = (64, 128)
# car11: "over 80%" not modified in over 64 days, "over 70%" in over 128: data is rarely overwritten.
_MOSTLY: Final = 0.5
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
        return Exhibit(
            "car11.overwrite", "Age of data and overwriting", age.tables, age.charts, age.estimates, age.findings,
            (*age.caveats, "No job has told which files it wrote: Darshan logs would."),
        )  # fmt: skip
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
            "supported",
        )
    return Finding(f"Jobs wrote {files_written:,} files; {files_present:,} are there.")


def _share(ages: Bins, days: int) -> float | None:
    return ages.from_on(days)[1] / ages.total_bytes if ages.total_bytes else None


def _findings(ages: Bins, share: dict[int, float | None]) -> Iterator[Finding]:
    for days, ratio in share.items():
        if ratio is not None:
            held = format_bytes(ages.from_on(days)[1])
            yield Finding(
                f"Most of the data lies unmodified for {days} days or longer: {ratio:.1%} ({held}) does.",
                "supported" if ratio > _MOSTLY else "refuted",
            )
        else:
            yield Finding(f"There is no data whose age of {days} days could be told.", "undecided")


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
    return Chart(
        "cdf", table("age_cdf", rows), {"x": "days", "y": "share", "series": "series"},
        "Files and bytes by time since modification", scales={"x": "log"},
        references=tuple(Reference("x", float(days), f"{days} days") for days in AGES_DAYS),
    )  # fmt: skip
