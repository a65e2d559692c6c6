"""Writing results to files, by the file's ending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, cast

from ioweather.core.errors import UsageError
from ioweather.core.results import Exhibit, result_json
from ioweather.core.whole_files import write_whole

ENDINGS = (".svg", ".png", ".pdf", ".html", ".json")


def write_exhibit(exhibit: Exhibit, out: Path, *, theme: Literal["light", "dark"] = "light") -> None:
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    if ending == ".json":
        data = json.dumps(result_json(exhibit), indent=2).encode()
    elif ending == ".html":
        from ioweather.figures.page import exhibit_html

        data = exhibit_html(exhibit).encode()
    else:
        if not exhibit.charts:
            raise UsageError(
                f"{exhibit.id} is a table and has no figure.", hint="Write it as .html or .json, or use --csv."
            )
        from ioweather.figures.render import exhibit_figure

        data = exhibit_figure(exhibit, cast(Literal["svg", "png", "pdf"], ending[1:]), theme)
    try:
        write_whole(out, data)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
