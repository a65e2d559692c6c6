"""What is in the file system (car11 IV-A): sizes of files, with and without the project that dominates, and growth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.contracts import Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import MIB, format_bytes
from ioweather.studies.contents.growth import growth_exhibit
from ioweather.studies.contents.scans import BINS, JOBS, PROJECT_BINS, ROOT, SCANS, Bins, ScanView, view
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.presenting import table

# car11 writes 2 MB and 128 MB; fsstats, which it used, has powers of two.
_LIMITS: Final = {"1 MiB": MIB, "2 MB": 2 * MIB, "128 MB": 128 * MIB}
_BINNED: Final = "share below the power of two; exact count"


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    scans = view(data.frames, facility)
    if scans is None:
        return
    project = params["project"] or scans.dominant_project()
    sizes = scans.histogram(-1, "size")
    if sizes.files:
        yield size_exhibit(scans, sizes, project)
    yield growth_exhibit(scans, project, params["files_target"])


@exhibit("car11.fig8")
def size_exhibit(scans: ScanView, sizes: Bins, project: str | None) -> Iterator[Piece]:
    """car11.fig8, of the newest scan."""
    own = scans.project_histogram(-1, "size", project) if project else None
    rest = sizes.without(own) if own is not None else None
    if rest is not None and rest.files == 0:
        rest = None
    series = {"all files": sizes, **({f"without {project}": rest} if rest else {})}
    yield [
        *_mode_estimates(sizes, ""),
        *_below_estimates(sizes, "", _LIMITS),
        plain("largest", scans.numbers("largest_file_bytes")[-1], "bytes", n=sizes.files, method="maximum"),
    ]
    if rest is not None:
        yield [*_mode_estimates(rest, "_without"), *_below_estimates(rest, "_without", {"1 MiB": MIB})]
    yield _size_table(sizes, rest, project), _cdf(series), _by_bytes(sizes), _counts(series)
    yield _size_findings(sizes, own, rest, project), _caveats(scans, project)


def _mode(bins: Bins) -> int:
    return int(np.argmax(bins.count))


def _mode_estimates(bins: Bins, suffix: str) -> list[Estimate]:
    mode = _mode(bins)
    method = "most frequent power-of-two range"
    return [
        plain(f"mode_low{suffix}", int(bins.low[mode]), "bytes", n=bins.files, method=method),
        plain(f"mode_high{suffix}", int(bins.high[mode]), "bytes", n=bins.files, method=method),
        plain(f"mode_files{suffix}", int(bins.count[mode]), "count", n=bins.files, method=method),
    ]


def _below_estimates(bins: Bins, suffix: str, limits: dict[str, int]) -> list[Estimate]:
    return [
        plain(f"below_ratio{suffix}[{label}]", bins.below(limit)[0] / bins.files, "ratio", n=bins.files, method=_BINNED)
        for label, limit in limits.items()
    ]


def _cdf(series: dict[str, Bins]) -> Chart:
    rows = [
        (name, int(high), float(share))
        for name, bins in series.items()
        for high, share in zip(bins.high, bins.count.cumsum() / bins.files, strict=True)
    ]
    points = table(
        "size_cdf",
        {
            "series": ("", "text", [row[0] for row in rows]),
            "size": ("file size below", "bytes", [row[1] for row in rows]),
            "share": ("share of files", "ratio", [row[2] for row in rows]),
        },
    )
    return Chart.of(
        "cdf",
        points,
        "x=size y=share series",
        "Share of files below a size",
        log="x",
        references=(Reference("x", float(MIB), "1 MiB"),),
    )


def _by_bytes(bins: Bins) -> Chart:
    total = max(1, bins.total_bytes)
    points = table(
        "bytes_cdf",
        {
            "series": ("", "text", ["files"] * len(bins.high) + ["bytes"] * len(bins.high)),
            "size": ("file size below", "bytes", np.concatenate([bins.high, bins.high])),
            "share": (
                "share",
                "ratio",
                np.concatenate([bins.count.cumsum() / bins.files, bins.bytes.cumsum() / total]),
            ),
        },
    )
    return Chart.of("cdf", points, "x=size y=share series", "Where the files are, and where the bytes", log="x")


def _counts(series: dict[str, Bins]) -> Chart:
    named = [(name, *row) for name, bins in series.items() for row in zip(bins.low, bins.high, bins.count, strict=True)]
    points = table(
        "size_counts",
        {
            "series": ("", "text", [row[0] for row in named]),
            "low": ("file size", "bytes", [int(row[1]) for row in named]),
            "high": ("to", "bytes", [int(row[2]) for row in named]),
            "files": ("files", "count", [int(row[3]) for row in named]),
        },
    )
    return Chart.of("histogram", points, "low high y=files series", "Files by size", log="x")


def _size_table(sizes: Bins, rest: Bins | None, project: str | None) -> ResultTable:
    columns = {
        "low": ("from", "bytes", sizes.low),
        "high": ("to", "bytes", sizes.high),
        "files": ("files", "count", sizes.count),
        "bytes": ("bytes", "bytes", sizes.bytes),
        "below": ("files below `to`", "ratio", sizes.count.cumsum() / sizes.files),
    }
    if rest is not None:
        columns["rest"] = (f"files without {project}", "count", rest.count)
    return table("sizes", columns, "Files by size, in powers of two")


def _size_findings(sizes: Bins, own: Bins | None, rest: Bins | None, project: str | None) -> Iterator[Finding]:
    files, held = sizes.below(MIB)
    small, of_bytes = files / sizes.files, held / max(1, sizes.total_bytes)
    yield Finding(
        f"Of {sizes.files:,} files {small:.1%} are below 1 MiB; they hold {of_bytes:.1%} of the bytes.",
        name="small_files",
    )
    yield Finding(f"Most files lie between {_range(sizes)}.", name="usual_sizes")
    if own is None or project is None:
        yield Finding(
            "Nothing tells whose files these are, so no project can be left out.", "undecided", name="owners_unknown"
        )
        return
    share = own.files / sizes.files
    yield Finding(
        f"{project} has most files: {own.files:,} ({share:.1%}), and {format_bytes(own.total_bytes)} "
        f"({own.total_bytes / max(1, sizes.total_bytes):.1%} of the bytes).",
        name="largest_owner",
    )
    if rest is None:
        yield Finding(f"All files belong to {project}.", "undecided", name="one_owner")
        return
    yield Finding(
        f"Without {project} most files would lie between {_range(rest)}, and "
        f"{rest.below(MIB)[0] / rest.files:.1%} would be below 1 MiB.",
        name="without_largest_owner",
    )


def _range(bins: Bins) -> str:
    mode = _mode(bins)
    return f"{format_bytes(int(bins.low[mode]))} and {format_bytes(int(bins.high[mode]))}"


def _caveats(scans: ScanView, project: str | None) -> Iterator[str]:
    if not bool(scans.scans.array("complete")[-1]):
        unreadable = scans.numbers("unreadable_count")[-1]
        what = f"{unreadable:,} directories could not be read" if unreadable else "its list was cut short"
        yield f"The scan is not complete: {what}."
    yield "2 MB and 128 MB are taken as 2 MiB and 128 MiB: bins are powers of two."
    if project is not None:
        yield "Projects by path and group are those that the rules gave when the scan was made."
        if scans.accounts:
            yield "Users whom no rule names stand for the account that all their jobs are charged to."


STUDY = Study(
    name="contents",
    exhibits=("car11.fig8", "car11.table3"),
    needs=(SCANS, BINS, PROJECT_BINS, JOBS),
    run=run,
    params=(
        ROOT,
        Param("project", "project to show apart; default: the one with most files"),
        Param("files_target", "number of files to forecast; default: the next power of ten", kind="int"),
    ),
)
