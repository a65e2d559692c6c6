"""`ioweather.write_report`: the report, for programs and notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ioweather.lake.place import lake_at
from ioweather.ui.report.write import Audience
from ioweather.ui.report.write import write_report as write

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake


def write_report(
    out: str | os.PathLike[str],
    lake: Lake | str | os.PathLike[str] | None = None,
    *,
    audience: Audience = "science",
    anonymous: bool = False,
) -> Path:
    """Write what the lake can tell as one file, HTML or PDF, which needs nothing beside it; returns its path.

    `audience`: a "director" gets one sheet, an "operator" two, "science" all exhibits too.

    `anonymous` replaces users, projects, programs, hosts and paths by aliases.
    """
    write(lake_at(lake), Path(out), audience=audience, anonymous=anonymous)
    return Path(out)
