"""From a lake to a report on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ioweather.core.errors import UsageError
from ioweather.core.papers import exhibit_entry
from ioweather.core.progress import Progress, silent
from ioweather.core.whole_files import write_whole
from ioweather.lake.caches import CachedLake, LakeCache
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import ALL_TIME, Period
from ioweather.ui.report.aliases import aliases_of
from ioweather.ui.report.front import Sheet, actions, director_sheet, find, operator_sheet
from ioweather.ui.report.gather import Made, Material, gather
from ioweather.ui.report.page import report_html

# A page as PDF, by the browser that is installed: what it prints is what is seen.

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_SECONDS: Final = 120
_ROOM_BYTES: Final = 256 << 20


def pdf_printer(out: Path) -> str:
    """The browser, found before the work begins."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise UsageError(
            f"--out {out}: no Chromium is installed, which would print it.",
            hint="Write .html and print it from a browser.",
        )
    return found


def print_pdf(browser: str, page: str, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ioweather-pdf-") as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        options = "--headless=new --disable-gpu --no-first-run --disable-background-networking --no-pdf-header-footer"
        line = [browser, *options.split(), f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}"]
        # Chromium refuses to run as root with its sandbox; the page holds no script and may load nothing.
        line += ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            subprocess.run([*line, source.as_uri()], check=True, capture_output=True, timeout=_PATIENCE_SECONDS)
            data = made.read_bytes()
        except (subprocess.SubprocessError, OSError) as error:
            raise UsageError(
                f"--out {out}: {Path(browser).name} did not print it ({type(error).__name__}).",
                hint="Write .html and print it from a browser.",
            ) from None
    out.write_bytes(data)


Audience: TypeAlias = Literal["director", "operator", "science"]


def write_report(
    lake: Lake,
    out: Path,
    *,
    period_ns: Period = ALL_TIME,
    audience: Audience = "science",
    only: Sequence[str] = (),
    anonymous: bool = False,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Material:
    """Write the report to `out` and return what it was written from. A place that cannot be written is found first.
    `audience`: a director gets one sheet, an operator two, science the exhibits too; `only` these of them."""
    if out.suffix.lower() not in (".html", ".htm", ".pdf"):
        raise UsageError(f"--out {out}: the ending must be .html or .pdf.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}.")
    browser = pdf_printer(out) if out.suffix.lower() == ".pdf" else None
    for exhibit_id in only:
        exhibit_entry(exhibit_id)
    wanted = (tuple(only) or None) if audience == "science" else ()
    # Many questions: its tables are opened once, and what several ask for is read once.
    kept = CachedLake(lake.root, LakeCache(room_bytes=_ROOM_BYTES), lake.owner)
    of_tasks = kept if executor is None else lake  # which other processes are given too
    material = gather(of_tasks, period_ns=period_ns, only=wanted, executor=executor, progress=progress)
    sheets = front_sheets(kept, material, operator=audience != "director")
    if anonymous:
        material, sheets = anonymised(lake, material, sheets)
    page = report_html(material, sheets, anonymous=anonymous, appendix=audience == "science", progress=progress)
    try:
        if browser is None:
            write_whole(out, page.encode())
        else:
            print_pdf(browser, page, out)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
    return material


def front_sheets(lake: Lake, material: Material, *, operator: bool) -> list[Sheet]:
    low, high = material.period_ns
    if material.span_ns is not None:
        low, high = max(low, material.span_ns[0]), min(high, material.span_ns[1] + 1)
    if low >= high:
        return [Sheet(f"Storage of {material.facility.name}", ("The lake holds nothing of this period.",))]
    if material.period_ns == ALL_TIME:  # there is no time before: its second half is compared with its first
        middle = (low + high) // 2
        whole, compared, before = find(lake, [(low, high), (middle, high), (low, middle)])
        now = replace(whole, slow=before.slow_with(compared))  # at one resolution, or shares do not compare
    else:
        now, before = find(lake, [(low, high), (2 * low - high, low)])
        compared = now
    sheets = [director_sheet(material.facility.name, now, compared, before, actions(lake, now))]
    return [*sheets, operator_sheet(now)] if operator else sheets


def anonymised(lake: Lake, material: Material, sheets: Sequence[Sheet] = ()) -> tuple[Material, list[Sheet]]:
    with lake.snapshot() as snapshot:
        aliases = aliases_of(snapshot)
    made = tuple(Made(aliases.hide(m.exhibit), m.filesystem) for m in material.made)
    left_out = tuple(replace(item, reason=aliases.text(item.reason)) for item in material.left_out)
    facility = material.facility.name
    hidden = [aliases.hide(replace(sheet, title=sheet.title.replace(facility, "a facility"))) for sheet in sheets]
    return replace(material, made=made, left_out=left_out, lake=""), hidden
