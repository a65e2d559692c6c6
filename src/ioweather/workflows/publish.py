"""Writing results to files, by the file's ending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, cast

from ioweather._version import __version__
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import UsageError
from ioweather.core.papers.comparison import comparison_table
from ioweather.core.results import Exhibit, result_json
from ioweather.core.typeset import FORMS
from ioweather.core.units import format_time_ns
from ioweather.core.whole_files import write_whole
from ioweather.store.lake import Lake

ENDINGS = (".svg", ".png", ".pdf", ".html", ".json", *FORMS)


def origin_of(lake: Lake, exhibit: Exhibit, period_ns: Period = ALL_TIME) -> str:
    """What a figure or table says wherever it is printed: whose it is, which exhibit, when, and whether it is real."""
    facility = lake.facility
    simulated = "" if not facility.simulated or "simulated" in facility.name else " (simulated)"
    with lake.snapshot() as snapshot:
        times = [(group.first_ns, group.end_ns) for group in snapshot.series()]
        for table in ("applications", "responses"):
            if snapshot.pinned[table].uris:
                first, last = (snapshot.scalar(f"SELECT {which}(start_ns) FROM {table}") for which in ("min", "max"))
                times += [(first, last)] if isinstance(first, int) and isinstance(last, int) else []
    when = ""
    if times:
        start, end = max(period_ns[0], min(a for a, _ in times)), min(period_ns[1], max(b for _, b in times))
        when = f", {format_time_ns(start)[:10]} to {format_time_ns(end)[:10]}"
    return f"{facility.name}{simulated}, {exhibit.id}{when}, ioweather {__version__}"


def write_exhibit(
    exhibit: Exhibit, out: Path, *, theme: Literal["light", "dark"] = "light", origin: str = "",
    column: Literal["single", "double"] | None = None,
) -> None:  # fmt: skip
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    if ending == ".json":
        data = json.dumps(result_json(exhibit), indent=2).encode()
    elif ending == ".html":
        from ioweather.figures.page import exhibit_html

        data = exhibit_html(exhibit).encode()
    elif ending in FORMS:
        compared = comparison_table(exhibit)
        tables = [table for table in (*exhibit.tables, *([compared] if compared else [])) if table.rows]
        if not tables:
            raise UsageError(f"{exhibit.id} has no table.", hint="Write it as .svg, .png or .pdf.")
        data = FORMS[ending](tables, origin).encode()
    else:
        if not exhibit.charts:
            raise UsageError(
                f"{exhibit.id} is a table and has no figure.", hint="Write it as .tex, .md, .csv, .html or .json."
            )
        from ioweather.figures.render import exhibit_figure

        form = cast(Literal["svg", "png", "pdf"], ending[1:])
        data = exhibit_figure(exhibit, form, theme, origin=origin, column=column)
    try:
        write_whole(out, data)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
