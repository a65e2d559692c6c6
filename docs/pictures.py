"""Draws a picture of every exhibit, from the simulated facility of `ioweather demo`, for the documentation site.

    python docs/pictures.py [--again]

They go to docs/reference/pictures, which is not kept in the repository; what is there is not drawn again. Small ones, in
its folder thumbs, are for the contact sheet (docs/reference/gallery.md).
"""

from __future__ import annotations

import io
import sys
import tempfile
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

import vl_convert

from ioweather.core.papers import exhibits
from ioweather.core.results import Exhibit
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import make_exhibits
from ioweather.ui.charts.render import exhibit_figure
from ioweather.ui.local_setup import make_demo

PICTURES = Path(__file__).parent / "reference" / "pictures"
_LINE, _COLUMN, _MARGIN = 18, 7.85, 14
_MOST_LINES = 44
_THUMB_SCALE = 0.45
# No program of the demonstration changed for good: two runs of one, with the smallest and the largest requests.
_COMPARED = "car11.fig11"
_TWO_RUNS = """
    SELECT arg_min(log_digest, request) || ',' || arg_max(log_digest, request)
    FROM (SELECT log_digest, write_bytes / write_count AS request FROM job_io WHERE write_count > 0)
    JOIN applications USING (log_digest)
    GROUP BY exe, nprocs, uid ORDER BY max(request) / min(request) DESC, 1 LIMIT 1
"""


def draw(exhibit: Exhibit, scale: float = 2.0) -> bytes:
    """Its figure; where it is a table, what the terminal shows of it."""
    return exhibit_figure(exhibit, "png", scale) if exhibit.charts else _screen(exhibit, scale / 2)


def _screen(exhibit: Exhibit, scale: float) -> bytes:
    from ioweather.ui.cli.terminal import print_exhibit

    with redirect_stdout(io.StringIO()) as out:
        print_exhibit(exhibit, "text")
    lines = out.getvalue().rstrip().splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], "..."]
    width = max(map(len, lines)) * _COLUMN + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    rows = "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + 13 + _LINE * place}" xml:space="preserve">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    return bytes(
        vl_convert.svg_to_png(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            f'font-family="DejaVu Sans Mono, monospace" font-size="13">'
            f'<rect width="100%" height="100%" fill="white"/>{rows}</svg>',
            scale=scale,
        )
    )


def main() -> None:
    (PICTURES / "thumbs").mkdir(parents=True, exist_ok=True)
    wanted = [e.id for e in exhibits() if "--again" in sys.argv or not (PICTURES / "thumbs" / f"{e.id}.png").exists()]
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="ioweather-docs-") as folder:
        lake = open_lake(make_demo(Path(folder) / "lake"))
        with lake.snapshot() as snapshot:
            logs = str(snapshot.scalar(_TWO_RUNS))
        compared = make_exhibits(lake, [_COMPARED], params={"logs": logs}) if _COMPARED in wanted else []
        for exhibit in make_exhibits(lake, [each for each in wanted if each != _COMPARED]) + compared:
            (PICTURES / f"{exhibit.id}.png").write_bytes(draw(exhibit))
            (PICTURES / "thumbs" / f"{exhibit.id}.png").write_bytes(draw(exhibit, _THUMB_SCALE))
    print(f"{len(wanted)} pictures in {PICTURES}")


if __name__ == "__main__":
    main()
