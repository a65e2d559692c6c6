"""From a lake to a report on disk."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from ioweather.core.errors import UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.whole_files import write_whole
from ioweather.report.aliases import aliases_of
from ioweather.report.gather import Made, Material, gather
from ioweather.report.page import report_html
from ioweather.store.lake import Lake
from ioweather.workflows.analyse import ALL_TIME, Period


def write_report(
    lake: Lake,
    out: Path,
    *,
    period_ns: Period = ALL_TIME,
    anonymous: bool = False,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Material:
    """Write the report to `out` and return what it was written from. A place that cannot be written is found first."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: the ending must be .html.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}.")
    material = gather(lake, period_ns=period_ns, executor=executor, progress=progress)
    if anonymous:
        material = anonymised(lake, material)
    page = report_html(material, anonymous=anonymous, progress=progress)
    try:
        write_whole(out, page.encode())
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
    return material


def anonymised(lake: Lake, material: Material) -> Material:
    with lake.snapshot() as snapshot:
        aliases = aliases_of(snapshot)
    made = tuple(Made(aliases.exhibit(m.exhibit), m.filesystem) for m in material.made)
    left_out = tuple(replace(item, reason=aliases.text(item.reason)) for item in material.left_out)
    return replace(material, made=made, left_out=left_out, lake="")
