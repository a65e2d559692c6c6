"""Every source, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.contracts import Source
from ioweather.core.registry import Catalogue

SOURCES: Catalogue[Source] = Catalogue(
    "source",
    {
        "darshan": "ioweather.sources.darshan.rows:DARSHAN",
    },
)
