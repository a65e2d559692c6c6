"""`ioweather.write_report`: the report, for programs and notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ioweather.report.write import write_report as write
from ioweather.workflows.api import lake_at

if TYPE_CHECKING:
    from ioweather.store.lake import Lake


def write_report(
    out: str | os.PathLike[str], lake: Lake | str | os.PathLike[str] | None = None, *, anonymous: bool = False
) -> Path:
    """Write everything the lake can tell as one HTML file, which needs nothing beside it; returns its path.

    `anonymous` replaces users, projects, programs, hosts and paths by aliases.
    """
    write(lake_at(lake), Path(out), anonymous=anonymous)
    return Path(out)
